// SPDX-License-Identifier: Apache-2.0
// SwiGLU of one element: h = (up' + beta) * (gate' * sigmoid(alpha * gate')).
//
//   up'   = clamp(up, +-limit)                       gate' = max(min(gate, limit), -FLT_MAX); NaN survives both
//   a     = -((alpha * gate') * log2 e)              two binary32 multiplications (three where alpha is not 1)
//   h     = (up' + beta) * (gate' * (1 / (1 + 2^a)))
//
// Binary32, each step rounded to nearest and subnormals flushed to zero of the same sign, on the way in and after each
// product: so an up of -0 counts as +0 (beta is +0 or more), a gate of -Inf gives a zero and no NaN, and the sigmoid is
// 0 below a gate of about -87.34. 2^a is the C library's exp2f (within 1 ulp). Source: semantics.md sections 7 and 9.
// Truth: reference/layer.h.
#pragma once

#include <cmath>
#include <limits>

#include "formats/mxfp8.h"

namespace octet::cpu {

constexpr float kLog2E = 1.44269504F;

inline float sigmoid_flushed(float v) {
  const float a = -formats::flush_subnormal(v * kLog2E);
  return formats::flush_subnormal(1.0F / (1.0F + std::exp2(a)));
}

inline float swiglu(float up, float gate, float limit, float alpha, float beta) {
  constexpr float kLeast = std::numeric_limits<float>::lowest();
  float u = formats::flush_subnormal(up);
  u = u > limit ? limit : u < -limit ? -limit : u;
  float g = formats::flush_subnormal(gate);
  g = g > limit ? limit : g;
  g = g < kLeast ? kLeast : g;
  const float scaled = alpha == 1.0F ? g : formats::flush_subnormal(alpha * g);
  const float silu = formats::flush_subnormal(g * sigmoid_flushed(scaled));
  return formats::flush_subnormal((u + beta) * silu);
}

}  // namespace octet::cpu
