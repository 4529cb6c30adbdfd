// SPDX-License-Identifier: Apache-2.0
// Tensor memory: PTX ISA 9.7.16.1, 9.7.16.7 (allocation), 9.7.16.8 (loads). 128 lanes of 512 columns of 32 bits; an address has the lane in
// bits 31 ... 16, the column in bits 15 ... 0. Our own text: CCCL 13.0's wrappers of tcgen05 refuse sm_103a.
#pragma once

#include <cstdint>

#include "cuda/ptx/mbarrier.cuh"

namespace octet::sm100::ptx {

using namespace cuda::ptx;  // NOLINT(google-build-using-namespace): instructions of SM90 and later

// By a whole warp. `columns`: a power of two, 32 ... 512. Blocks until the SM has as many free. The address goes to `to`; nobody allocates after
// this.
__device__ __forceinline__ void allocate_columns(uint32_t& to, uint32_t columns) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(
                   shared_address(&to)),
               "r"(columns)
               : "memory");
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
}
// By a whole warp, once nobody uses them any more.
__device__ __forceinline__ void free_columns(uint32_t address, uint32_t columns) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "r"(columns)
               : "memory");
}

// Eight columns of the 32 lanes from `address` on, by the warp that may read them (lanes 32 (warp % 4) ...). Lane l of the warp then has of
// columns 2 (l % 4), + 1: of lane l / 4 r[0], r[1]; of l / 4 + 8 r[2], r[3]; + 16 r[4], r[5]; + 24 r[6], r[7]. Not before wait_for_loads().
__device__ __forceinline__ void load_eight_columns(uint32_t (&r)[8], uint32_t address) {
  asm volatile("tcgen05.ld.sync.aligned.16x256b.x1.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
  asm volatile("tcgen05.ld.sync.aligned.16x256b.x1.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7])
               : "r"(address + (16U << 16))
               : "memory");
}
// Naming the registers keeps the compiler from using them earlier.
__device__ __forceinline__ void wait_for_loads(uint32_t (&r)[8]) {
  asm volatile("tcgen05.wait::ld.sync.aligned;"
               : "+r"(r[0]), "+r"(r[1]), "+r"(r[2]), "+r"(r[3]), "+r"(r[4]), "+r"(r[5]), "+r"(r[6]),
                 "+r"(r[7])
               :
               : "memory");
}

// PTX ISA 9.7.16.11: between this thread's use of tensor memory and a signal to others; between a signal and a use.
__device__ __forceinline__ void fence_before_signal() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
__device__ __forceinline__ void fence_after_signal() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

}  // namespace octet::sm100::ptx
