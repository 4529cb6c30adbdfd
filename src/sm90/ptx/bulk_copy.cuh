// SPDX-License-Identifier: Apache-2.0
// Copies of many bytes by one thread, from global to shared memory: PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk"
// and "createpolicy".
#pragma once

#include <cstdint>

#include "sm90/ptx/mbarrier.cuh"

namespace octet::sm90::ptx {

// How long L2 keeps what a copy brings: this, or cuda/async_copy.cuh's.
__device__ __forceinline__ uint64_t evict_normal() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// `bytes`, `to` and `from`: multiples of 16. `barrier` counts the bytes as they land.
__device__ __forceinline__ void bulk_copy(void* to, const void* from, uint32_t bytes,
                                          uint64_t& barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1], %2, [%3], %4;" ::"r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(&barrier)), "l"(policy)
      : "memory");
}

}  // namespace octet::sm90::ptx
