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

// Two products; subnormals are kept, in and out. PTX and not the intrinsic, which takes pairs apart and puts them together again:
// 2.5 times the instructions of a record.
__device__ __forceinline__ uint32_t mul_bf16x2(uint32_t a, uint32_t b) {
  uint32_t d;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
#else
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(0x80008000U));
#endif
  return d;
}
// The low or the high number of a pair in both halves.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
// Taken apart and put together, which ptxas makes part of a multiplication; of a permutation of bytes it makes an instruction.
__device__ __forceinline__ uint32_t low_bf16x2(uint32_t v) {
  uint32_t d;
  asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %1;\nmov.b32 %0, {l, l};\n}" : "=r"(d) : "r"(v));
  return d;
}
__device__ __forceinline__ uint32_t high_bf16x2(uint32_t v) {
  uint32_t d;
  asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %1;\nmov.b32 %0, {h, h};\n}" : "=r"(d) : "r"(v));
  return d;
}
#else
__device__ __forceinline__ uint32_t low_bf16x2(uint32_t v) { return __byte_perm(v, v, 0x1010); }
__device__ __forceinline__ uint32_t high_bf16x2(uint32_t v) { return __byte_perm(v, v, 0x3232); }
#endif
// 2^exponent twice, exponent -126 ... 127.
constexpr uint32_t power_bf16x2(int exponent) {
  return static_cast<uint32_t>(exponent + 127) << 7 | static_cast<uint32_t>(exponent + 127) << 23;
}
__device__ __forceinline__ uint32_t round_bf16x2(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

}  // namespace octet::cuda
