// SPDX-License-Identifier: Apache-2.0
// Between warps: PTX ISA, "barrier" (bar.sync).
#pragma once

namespace octet::sm90::ptx {

// Barrier `id` (0 is __syncthreads()'s) of `threads` threads of the CTA.
__device__ __forceinline__ void sync_threads(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace octet::sm90::ptx
