// SPDX-License-Identifier: Apache-2.0
// SwiGLU of one element on the device: semantics.md sections 7 and 9, in binary32 with subnormals flushed to zero.
#pragma once

#include <cfloat>

namespace octet::cuda {

__device__ __forceinline__ float mul_flushed(float a, float b) {
  float y;
  asm("mul.rn.ftz.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
__device__ __forceinline__ float add_flushed(float a, float b) {
  float y;
  asm("add.rn.ftz.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
// 1 / (1 + 2^-(v log2 e)), approximate as the section says: 0 below v of about -87.34.
__device__ __forceinline__ float sigmoid_flushed(float v) {
  float power, y;
  const float a = -mul_flushed(v, 1.44269504F);
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(a));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(1.0F + power));
  return y;
}

// (up' + beta) * (gate' * sigmoid(alpha * gate')); NaN survives the clamps, a gate of -Inf is the least float.
__device__ __forceinline__ float swiglu(float up, float gate, float limit, float alpha,
                                        float beta) {
  gate = mul_flushed(gate, 1.0F);
  gate = gate > limit ? limit : gate;
  gate = gate < -FLT_MAX ? -FLT_MAX : gate;
  up = mul_flushed(up, 1.0F);
  up = up > limit ? limit : up < -limit ? -limit : up;
  const float scaled = alpha == 1.0F ? gate : mul_flushed(alpha, gate);
  return mul_flushed(add_flushed(up, beta), mul_flushed(gate, sigmoid_flushed(scaled)));
}

}  // namespace octet::cuda
