// SPDX-License-Identifier: Apache-2.0
// BF16 on tensor cores and in pairs (SM80 and later). A register holds two numbers, the one of lower k in its low half.
#pragma once

#include <cstdint>

#include <cuda_bf16.h>

namespace octet::cuda {

// d += a b: a [16, 16] rows g and g + 8 by {k0, k0}, {k1, k1}; b [16, 8]; d rows g, g + 8 by columns 2 t, 2 t + 1.
__device__ __forceinline__ void mma_bf16(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                         uint32_t a3, uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// The transpose of an 8 x 8 matrix of 16-bit elements, of which lane 4 g + t has row g, columns 2 t and 2 t + 1.
__device__ __forceinline__ uint32_t transpose_8x8(uint32_t a) {
  uint32_t d;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(a));
  return d;
}

__device__ __forceinline__ __nv_bfloat162 as_bf16x2(uint32_t v) {
  return __halves2bfloat162(__ushort_as_bfloat16(static_cast<uint16_t>(v)),
                            __ushort_as_bfloat16(static_cast<uint16_t>(v >> 16)));
}
__device__ __forceinline__ uint32_t bits_of(__nv_bfloat162 v) {
  return static_cast<uint32_t>(__bfloat16_as_ushort(v.x)) |
         static_cast<uint32_t>(__bfloat16_as_ushort(v.y)) << 16;
}
// Subnormals are kept, in and out.
__device__ __forceinline__ uint32_t mul_bf16x2(uint32_t a, __nv_bfloat162 b) {
  return bits_of(__hmul2_rn(as_bf16x2(a), b));
}
// 2^exponent twice, exponent -126 ... 127.
__device__ __forceinline__ __nv_bfloat162 power_bf16x2(int exponent) {
  return __bfloat162bfloat162(__ushort_as_bfloat16(static_cast<uint16_t>((exponent + 127) << 7)));
}
__device__ __forceinline__ uint32_t round_bf16x2(float low, float high) {
  return bits_of(__floats2bfloat162_rn(low, high));
}

}  // namespace octet::cuda
