// SPDX-License-Identifier: Apache-2.0
// Block-scaled products: PTX ISA 9.7.16.10 (tcgen05.mma), 9.7.16.9 (tcgen05.cp), 9.7.16.12 (tcgen05.commit), and the descriptors of 9.7.16.4.
//
//   d [128, 8] f32, tensor memory: lane m, column n     d (+)= sum over 32 k of (a * 2^(sa - 127)) * (b * 2^(sb - 127))
//   a [128, 32] e2m1 (two a byte pair of 16, below), b [8, 32] e4m3: shared memory, K contiguous, 128-byte swizzle
//   sa, sb ue8m0, one a row of a and of b: tensor memory, a byte of a column
//
// All by one thread: products of one thread and one d come in order, copies of scales before products that come after them, and a commit
// tracks what its own thread issued (9.7.16.6.2). Our own text: CCCL 13.0's wrappers of tcgen05 refuse sm_103a.
#pragma once

#include <cstdint>

#include "cuda/ptx/mbarrier.cuh"
#include "sm100/descriptors.h"

namespace octet::sm100::ptx {

using namespace cuda::ptx;  // NOLINT(google-build-using-namespace): instructions of SM90 and later

// 32 lines of 16 bytes, from shared memory to four columns, in each of the four quarters of the lanes: byte 4 c + i of line l goes to lane
// 32 q + l, column + c, byte i.
__device__ __forceinline__ void copy_scales(uint32_t columns, uint64_t lines) {
  asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(columns), "l"(lines)
               : "memory");
}

__device__ __forceinline__ void multiply(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction,
                                         uint32_t a_scales, uint32_t b_scales, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
      "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [%0], %1, %2, %3, [%4], "
      "[%5], p;\n}" ::"r"(d),
      "l"(a), "l"(b), "r"(instruction), "r"(a_scales), "r"(b_scales), "r"(adds ? 1U : 0U)
      : "memory");
}

// One arrival on `barrier` once everything that this thread issued is done.
__device__ __forceinline__ void commit(uint64_t& barrier) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(
                   shared_address(&barrier))
               : "memory");
}

}  // namespace octet::sm100::ptx
