// SPDX-License-Identifier: Apache-2.0
// Copies from global to shared memory that run beside the thread (SM80 and later; PTX ISA, cp.async), for bytes that are read
// once: evict-first keeps them from pushing activations out of the L2 cache.
#pragma once

#include <cstdint>

namespace octet::cuda {

__device__ __forceinline__ uint64_t evict_first_policy() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// 16 bytes; both addresses are multiples of 16.
__device__ __forceinline__ void copy_16_async(uint32_t shared, const void* global,
                                              uint64_t policy) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(shared),
               "l"(global), "l"(policy)
               : "memory");
}

__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Until at most `pending` (0 ... 3) of this thread's groups are under way.
__device__ __forceinline__ void wait_for_copies(int pending) {
  if (pending >= 3) {
    asm volatile("cp.async.wait_group 3;" ::: "memory");
  } else if (pending == 2) {
    asm volatile("cp.async.wait_group 2;" ::: "memory");
  } else if (pending == 1) {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
  } else {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
  }
}

}  // namespace octet::cuda
