// SPDX-License-Identifier: Apache-2.0
// Barriers in shared memory on which arriving and waiting are apart (SM80 and later; PTX ISA, mbarrier).
#pragma once

#include <cstdint>

namespace octet::cuda {

__device__ __forceinline__ uint32_t barrier_address(uint64_t* barrier) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(barrier));
}
__device__ __forceinline__ void init_barrier(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier_address(barrier)), "r"(arrivals)
               : "memory");
}
// What this thread wrote before is seen by whoever waits.
__device__ __forceinline__ void arrive(uint64_t* barrier) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(
                   barrier_address(barrier))
               : "memory");
}
// Until the phase of this parity is over; the phase before a new barrier's first counts as one of parity 1.
__device__ __forceinline__ void wait_for_phase(uint64_t* barrier, uint32_t parity) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define OCTET_TEST_PHASE "mbarrier.try_wait.parity.shared.b64"
#else
#define OCTET_TEST_PHASE "mbarrier.test_wait.parity.shared.b64"
#endif
  uint32_t is_over = 0;
  do {
    asm volatile("{\n.reg .pred p;\n" OCTET_TEST_PHASE " p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(is_over)
                 : "r"(barrier_address(barrier)), "r"(parity)
                 : "memory");
  } while (is_over == 0);
#undef OCTET_TEST_PHASE
}

}  // namespace octet::cuda
