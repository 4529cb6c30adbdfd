// SPDX-License-Identifier: Apache-2.0
// Barriers in shared memory that count arrivals and bytes: PTX ISA, "Parallel Synchronization and Communication Instructions:
// mbarrier". A phase ends when its arrivals have come and its expected bytes have landed. A wait for a parity also passes for the phase
// two before, so who waits must have seen every phase of its barrier.
#pragma once

#include <cstdint>
#include <cstdio>

namespace octet::sm90::ptx {

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void init_barrier(uint64_t& barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)),
               "r"(arrivals)
               : "memory");
}
// Once after all of a CTA's init_barrier(), before any copy that completes on one.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// One arrival, and `bytes` more that copies will bring.
__device__ __forceinline__ void arrive_expecting(uint64_t& barrier, uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)),
      "r"(bytes)
      : "memory");
}
__device__ __forceinline__ void arrive(uint64_t& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier))
               : "memory");
}
__device__ __forceinline__ void arrive(uint64_t& barrier, uint32_t times) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)),
               "r"(times)
               : "memory");
}

__device__ __forceinline__ bool try_wait(uint64_t& barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, "
      "p;\n}"
      : "=r"(done)
      : "r"(shared_address(&barrier)), "r"(parity)
      : "memory");
  return done != 0;
}
// Builds without NDEBUG stop with a sentence instead of waiting for ever.
__device__ __forceinline__ void wait(uint64_t& barrier, uint32_t parity) {
#ifdef NDEBUG
  while (!try_wait(barrier, parity)) {
  }
#else
  constexpr int64_t kMostCycles = int64_t{1} << 34;  // some nine seconds
  for (const int64_t begin = clock64(); !try_wait(barrier, parity);) {
    if (clock64() - begin < kMostCycles) continue;
    printf("octet: block %d thread %d waits for ever: barrier at %u, parity %u\n",
           static_cast<int>(blockIdx.x), static_cast<int>(threadIdx.x), shared_address(&barrier),
           parity);
    __trap();
  }
#endif
}

}  // namespace octet::sm90::ptx
