// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace octet::cuda {

constexpr int kWarp = 32;
constexpr unsigned kWholeWarp = 0xFFFFFFFFU;

// This thread's lane, read where it stands: what is worked out from it does not wait in registers from before a loop on.
__device__ __forceinline__ int lane_here() {
  int lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

}  // namespace octet::cuda
