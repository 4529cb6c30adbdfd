// SPDX-License-Identifier: Apache-2.0
// SwiGLU of one element: h = (up' + beta) * (gate' * sigmoid(alpha * gate')).
//
//   up'   = clamp(up, +-limit)                       gate' = max(min(gate, limit), -FLT_MAX); NaN survives both
//   a     = -((alpha * gate') * log2 e)              two binary32 multiplications (three where alpha is not 1)
//   h     = (up' + beta) * (gate' * (1 / (1 + 2^a)))
//
// Binary32, each step rounded to nearest and subnormals flushed to zero of the same sign, on the way in and after each
// product: so an up of -0 counts as +0 (beta is +0 or more), a gate of -Inf gives a zero and no NaN, and the sigmoid is
// 0 below a gate of about -87.34. 2^a is within 0.51 ulp, by the series below in binary64. Everything is without branches
// and library calls, so that compilers make vector code of the loop over lanes, with the same bytes everywhere.
// Source: semantics.md sections 7 and 9. Truth: reference/layer.h.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "core/shape.h"
#include "formats/mxfp8.h"

namespace octet::cpu {

constexpr float kLog2E = 1.44269504F;

namespace activation {

// ln(2)^n / n!, the series of 2^r: of these for |r| <= 1/2 the rest is below 2^-31.7 of the sum.
constexpr int kTerms = 9;
constexpr std::array<double, kTerms> kSeries = [] {
  std::array<double, kTerms> c{};
  c[0] = 1;
  for (int n = 1; n < kTerms; ++n) c[n] = c[n - 1] * std::numbers::ln2 / n;
  return c;
}();

}  // namespace activation

// 2^a; NaN stays NaN.
[[gnu::always_inline]] inline float exp2_f32(float a) {
  constexpr float kEnds = 160.0F;  // there the result is 0 or infinite
  const float clamped = a < -kEnds ? -kEnds : a > kEnds ? kEnds : a;
  constexpr double kMagic = 0x1.8p52;  // the sum's low bits are the nearest integer
  const double sum = static_cast<double>(clamped) + kMagic;
  const double r = static_cast<double>(clamped) - (sum - kMagic);
  double power = activation::kSeries[activation::kTerms - 1];
  for (int n = activation::kTerms - 2; n >= 0; --n) power = power * r + activation::kSeries[n];
  const uint64_t exponent = std::bit_cast<uint64_t>(sum) - std::bit_cast<uint64_t>(kMagic) + 1023;
  return static_cast<float>(power * std::bit_cast<double>(exponent << 52));
}

[[gnu::always_inline]] inline float sigmoid_flushed(float v) {
  const float a = -formats::flush_subnormal(v * kLog2E);
  return formats::flush_subnormal(1.0F / (1.0F + exp2_f32(a)));
}

// `kLanes` elements at once.
template <int kLanes>
[[gnu::always_inline]] inline void swiglu_lanes(const Swiglu& act, const float* up,
                                                const float* gate, float* h) {
  constexpr float kLeast = std::numeric_limits<float>::lowest();
  const float limit = act.limit;
  float g[kLanes], scaled[kLanes], sigmoid[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    const float v = formats::flush_subnormal(gate[i]);
    const float most = v > limit ? limit : v;
    g[i] = most < kLeast ? kLeast : most;
    scaled[i] = g[i];
  }
  if (act.alpha != 1.0F) {
    for (int i = 0; i < kLanes; ++i) scaled[i] = formats::flush_subnormal(act.alpha * g[i]);
  }
  for (int i = 0; i < kLanes; ++i) sigmoid[i] = sigmoid_flushed(scaled[i]);
  for (int i = 0; i < kLanes; ++i) {
    const float v = formats::flush_subnormal(up[i]);
    const float most = v > limit ? limit : v;
    const float u = most < -limit ? -limit : most;
    h[i] = formats::flush_subnormal((u + act.beta) * formats::flush_subnormal(g[i] * sigmoid[i]));
  }
}

inline float swiglu(float up, float gate, const Swiglu& act) {
  float h;
  swiglu_lanes<1>(act, &up, &gate, &h);
  return h;
}

}  // namespace octet::cpu
