// SPDX-License-Identifier: Apache-2.0
// Copies from global to shared memory by one thread: PTX ISA 9.7.9.27 (cp.async.bulk.tensor), 9.7.9.25 (cp.async.bulk), 9.7.9.18
// (createpolicy). Our own text where CCCL 13.0's wrappers have no cache policy.
#pragma once

#include <cstdint>

#include <cuda.h>

#include "cuda/ptx/mbarrier.cuh"

namespace octet::cuda::ptx {

__device__ __forceinline__ void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// The map's box whose first element stands in column `x` of row `y`. `barrier` counts the bytes as they land: of FP4 that is unpacked
// the packed bytes, of rows outside the tensor the zeros that stand for them.
__device__ __forceinline__ void copy_tile(void* to, const CUtensorMap& map, int32_t x, int32_t y,
                                          uint64_t& barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(to)),
      "l"(&map), "r"(x), "r"(y), "r"(shared_address(&barrier)), "l"(policy)
      : "memory");
}
__device__ __forceinline__ void copy_tile(void* to, const CUtensorMap& map, int32_t x, int32_t y,
                                          uint64_t& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2, %3}], [%4];" ::"r"(shared_address(to)),
      "l"(&map), "r"(x), "r"(y), "r"(shared_address(&barrier))
      : "memory");
}

// `bytes`, `to` and `from`: multiples of 16.
__device__ __forceinline__ void copy_bytes(void* to, const void* from, uint32_t bytes,
                                           uint64_t& barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], "
      "%2, [%3], %4;" ::"r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(&barrier)), "l"(policy)
      : "memory");
}
__device__ __forceinline__ void copy_bytes(void* to, const void* from, uint32_t bytes,
                                           uint64_t& barrier) {
  asm volatile(
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(&barrier))
      : "memory");
}

// PTX ISA 9.7.13.4: what generic stores wrote, copies and tensor cores may read. To shared memory by the threads that wrote, before they
// signal; of global memory by the thread that copies, after it knows that the bytes are there.
__device__ __forceinline__ void fence_shared_for_async() {
  cccl::fence_proxy_async(cccl::space_shared);
}
__device__ __forceinline__ void fence_global_for_async() {
  cccl::fence_proxy_async(cccl::space_global);
}

}  // namespace octet::cuda::ptx
