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

// `threads` threads of a block, which may have more: PTX ISA, "barrier" (bar.sync). Barrier 0 is __syncthreads()'s.
__device__ __forceinline__ void meet(int threads, int barrier = 1) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// One of them that does not wait.
__device__ __forceinline__ void arrive(int threads, int barrier) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

}  // namespace octet::cuda
