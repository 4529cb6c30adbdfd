// SPDX-License-Identifier: Apache-2.0
// MXFP8 quantisation of a block of 32 elements of h: semantics.md section 7, step by step.
#pragma once

#include <cstdint>

#include <cuda_fp8.h>

#include "core/shape.h"
#include "cuda/warp.cuh"
#include "sm90/activation_record.h"

namespace octet::sm90 {

// A lane has eight neighbouring elements of a block, its four lanes (lane ^ 1, ^ 2) all of it.
struct QuantizedEight {
  uint32_t low, high;  // e4m3 of elements 0..3 and 4..7
  uint32_t code;       // ue8m0 of the block
};
__device__ __forceinline__ QuantizedEight quantize_h(const float (&h)[8]) {
  float amax = 0.0F;  // fmaxf drops NaN; no negative magnitude
#pragma unroll
  for (int i = 0; i < 8; ++i) amax = fmaxf(amax, fabsf(h[i]));
  amax = fmaxf(amax, __shfl_xor_sync(cuda::kWholeWarp, amax, 1));
  amax = fmaxf(amax, __shfl_xor_sync(cuda::kWholeWarp, amax, 2));
  if (amax == 0.0F) amax = 448.0F;
  const uint32_t v = __float_as_uint(__fmul_rn(amax, __uint_as_float(0x3B124925U)));  // 1 / 448
  const uint32_t exponent = v >> 23, mantissa = v & 0x7FFFFFU;
  const uint32_t up = exponent == 0 ? (mantissa > 0x400000U ? 1U : 0U) : (mantissa != 0 ? 1U : 0U);
  const uint32_t code = v >= 0x7F800000U ? 255U : exponent + up;
  // 2^(127 - code); a block of code 255 is NaN whatever its bytes
  const float inverse = code >= 254 ? 0.0F : __uint_as_float((254U - code) << 23);
  const auto two = [&](float a, float b) {
    return static_cast<uint32_t>(__nv_cvt_float2_to_fp8x2(
        make_float2(__fmul_rn(a, inverse), __fmul_rn(b, inverse)), __NV_SATFINITE, __NV_E4M3));
  };
  return {two(h[0], h[1]) | two(h[2], h[3]) << 16, two(h[4], h[5]) | two(h[6], h[7]) << 16, code};
}

}  // namespace octet::sm90
