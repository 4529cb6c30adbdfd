// SPDX-License-Identifier: Apache-2.0
// Block-scaled products of a warp: PTX ISA 9.7.14.5 (mma.sync), 9.7.14.3 (block scales), of sm_120a.
//
// d [16, 8] f32 += sum over 32 k of (a * 2^(sa - 127)) * (b * 2^(sb - 127)), a e2m1 in the middle of a byte, b e4m3. fragments.h says which
// lane has what; scales: byte kByte of `a_scales` of lanes 4 g (row g) and 4 g + 1 (row g + 8), of `b_scales` of lanes 4 n (column n).
#pragma once

#include <cstdint>

namespace octet::sm120::ptx {

template <int kByte>
__device__ __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4],
                                         const uint32_t (&b)[2], uint32_t a_scales,
                                         uint32_t b_scales) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e2m1.e4m3."
      "f32."
      "ue8m0 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, {%10}, {%12, 0}, "
      "{%11}, {%12, 0};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(a_scales),
        "r"(b_scales), "n"(kByte));
}

}  // namespace octet::sm120::ptx
