// SPDX-License-Identifier: Apache-2.0
// Barriers in shared memory that count arrivals and bytes, of SM90 and later: PTX ISA 9.7.13.15, through CCCL's wrappers. A phase ends when its arrivals have
// come and its expected bytes have landed. A wait for a parity passes once a phase of that parity is over; of a fresh barrier parity 1 is.
// Who waits must see every phase of its barrier.
#pragma once

#include <cstdint>
#include <cstdio>

#include <cuda/ptx>

namespace octet::cuda::ptx {

namespace cccl = ::cuda::ptx;

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void init_barrier(uint64_t& barrier, uint32_t arrivals) {
  cccl::mbarrier_init(&barrier, arrivals);
}
// By the thread that called init_barrier(), after the last call and before the CTA's first barrier of threads.
__device__ __forceinline__ void fence_barrier_init() {
  cccl::fence_mbarrier_init(cccl::sem_release, cccl::scope_cluster);
}
// One arrival, and `bytes` more that copies will bring.
__device__ __forceinline__ void arrive_expecting(uint64_t& barrier, uint32_t bytes) {
  cccl::mbarrier_arrive_expect_tx(cccl::sem_release, cccl::scope_cta, cccl::space_shared, &barrier,
                                  bytes);
}
__device__ __forceinline__ void arrive(uint64_t& barrier) {
  cccl::mbarrier_arrive(cccl::sem_release, cccl::scope_cta, cccl::space_shared, &barrier);
}

// Builds without NDEBUG stop with a sentence instead of waiting for ever.
__device__ __forceinline__ void wait(uint64_t& barrier, uint32_t parity) {
#ifdef NDEBUG
  while (!cccl::mbarrier_try_wait_parity(&barrier, parity)) {
  }
#else
  constexpr int64_t kMostCycles = int64_t{1} << 34;  // some nine seconds
  for (const int64_t begin = clock64(); !cccl::mbarrier_try_wait_parity(&barrier, parity);) {
    if (clock64() - begin < kMostCycles) continue;
    printf("octet: block %d thread %d waits for ever: barrier at %u, parity %u\n",
           static_cast<int>(blockIdx.x), static_cast<int>(threadIdx.x), shared_address(&barrier),
           parity);
    __trap();
  }
#endif
}

}  // namespace octet::cuda::ptx
