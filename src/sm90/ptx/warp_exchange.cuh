// SPDX-License-Identifier: Apache-2.0
// Between lanes and warps: PTX ISA, "movmatrix" and "barrier" (bar.sync, bar.arrive).
#pragma once

#include <cstdint>

namespace octet::sm90::ptx {

// An 8 x 8 matrix of 16-bit elements, row g in lanes 4 g ... 4 g + 3, two elements each: its transpose.
__device__ __forceinline__ uint32_t transpose(uint32_t row_pair) {
  uint32_t out;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(row_pair));
  return out;
}

// Barrier `id` (0 is __syncthreads()'s) of `threads` threads of the CTA: those that wait, and those that only say that they came.
__device__ __forceinline__ void sync_threads(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void arrive_threads(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace octet::sm90::ptx
