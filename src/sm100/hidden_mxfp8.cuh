// SPDX-License-Identifier: Apache-2.0
// MXFP8 quantisation of h, the parts that a block's threads need: semantics.md section 7.
#pragma once

#include <cstdint>

#include <cuda_fp8.h>

namespace octet::sm100 {

// UE8M0 of a block with this largest magnitude, NaN left out: 0 counts as 448, Inf gives 255.
__device__ __forceinline__ uint32_t hidden_scale_code(float amax) {
  if (amax == 0.0F) amax = 448.0F;
  const uint32_t v = __float_as_uint(__fmul_rn(amax, __uint_as_float(0x3B124925U)));  // 1 / 448
  const uint32_t e = v >> 23, m = v & 0x7FFFFFU;
  if (e == 0) return m > 0x400000U ? 1U : 0U;
  return min(e + (m != 0 ? 1U : 0U), 255U);
}
// 2^(127 - code); a block of code 255 is NaN whatever its bytes, and no finite block has 254.
__device__ __forceinline__ float hidden_inverse(uint32_t code) {
  return code >= 254 ? 0.0F : __uint_as_float((254U - code) << 23);
}
// E4M3 of two numbers, the first one in the low byte; NaN is 0x7F.
__device__ __forceinline__ uint16_t hidden_codes(float a, float b, float inverse) {
  return static_cast<uint16_t>(__nv_cvt_float2_to_fp8x2(
      make_float2(__fmul_rn(a, inverse), __fmul_rn(b, inverse)), __NV_SATFINITE, __NV_E4M3));
}

}  // namespace octet::sm100
