// SPDX-License-Identifier: Apache-2.0
// One thread for a warp, and barriers of some warps: PTX ISA 9.7.13.14 (elect.sync), 9.7.13.1 (bar.sync).
#pragma once

#include <cstdint>

namespace octet::cuda::ptx {

// True in one thread of the warp, always the same. All 32 come here.
__device__ __forceinline__ bool elect_one() {
  uint32_t is_elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xFFFFFFFF;\nselp.b32 %0, 1, 0, p;\n}"
               : "=r"(is_elected)::"memory");
  return is_elected != 0;
}

// Barrier kId (0 is __syncthreads()'s) of kThreads threads of the CTA.
template <int kId, int kThreads>
__device__ __forceinline__ void sync_threads() {
  asm volatile("bar.sync %0, %1;" ::"n"(kId), "n"(kThreads) : "memory");
}

}  // namespace octet::cuda::ptx
