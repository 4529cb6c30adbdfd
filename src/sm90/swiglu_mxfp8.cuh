// SPDX-License-Identifier: Apache-2.0
// SwiGLU of one element and MXFP8 quantisation of a block of 32 of them: semantics.md sections 7 and 9, step by step, binary32 with
// subnormals flushed where that section says so. exp2 and the reciprocal are the device's approximations, within 1 ulp each.
#pragma once

#include <cstdint>

#include <cuda_fp8.h>

#include "core/shape.h"
#include "cuda/warp.cuh"
#include "sm90/activation_record.h"

namespace octet::sm90 {

__device__ __forceinline__ float flushed(float v) {
  float r;
  asm("add.rn.ftz.f32 %0, %1, 0f80000000;" : "=f"(r) : "f"(v));  // -0 keeps every sign
  return r;
}
__device__ __forceinline__ float times_flushed(float a, float b) {
  float r;
  asm("mul.rn.ftz.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
__device__ __forceinline__ float sigmoid(float v) {
  float power, r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-times_flushed(v, 1.44269504F)));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(__fadd_rn(1.0F, power)));
  return r;
}

// (up' + beta) * (gate' * sigmoid(alpha * gate')); comparisons let NaN through.
__device__ __forceinline__ float swiglu(const Swiglu& act, float gate, float up) {
  constexpr float kLeast = -3.402823466e38F;
  const float v = flushed(gate), w = flushed(up);
  const float most = v > act.limit ? act.limit : v;
  const float g = most < kLeast ? kLeast : most;
  const float high = w > act.limit ? act.limit : w;
  const float u = high < -act.limit ? -act.limit : high;
  return times_flushed(__fadd_rn(u, act.beta),
                       times_flushed(g, sigmoid(times_flushed(act.alpha, g))));
}

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
