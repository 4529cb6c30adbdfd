// SPDX-License-Identifier: Apache-2.0
// SwiGLU of two accumulators: (up' + beta) * gate' * sigmoid(alpha * gate'), in float64 with the kernels' flush, and the
// interval of what binary32 may make of it. semantics.md sections 7 and 9.
#pragma once

#include <cmath>
#include <limits>

#include "core/shape.h"
#include "reference/span.h"

namespace octet::reference {

constexpr double kSigmoidFlush =
    -0x1.5d589f2fe5107p+6;  // -126 ln 2: below, the sigmoid is under 2^-126 and flushes to 0
constexpr double kSiluTurn = -1.2784645427610738;  // where z * sigmoid(z) is least

// Up is clamped on both sides; NaN stays.
inline double clamp_up(double up, double limit) {
  return up > limit ? limit : up < -limit ? -limit : up;
}

// Gate is clamped from above, and -inf to the least float; NaN stays.
inline double clamp_gate(double gate, double limit) {
  constexpr double kLeast = -static_cast<double>(std::numeric_limits<float>::max());
  const double g = gate > limit ? limit : gate;
  return g < kLeast ? kLeast : g;
}

// gate * sigmoid(alpha * gate) of a clamped gate.
inline double silu(double gate, double alpha) {
  const double z = alpha * gate;
  return z < kSigmoidFlush ? std::copysign(0.0, gate) : gate / (1 + std::exp(-z));
}

inline double swiglu(double up, double gate, const Swiglu& p) {
  return (clamp_up(up, p.limit) + p.beta) * silu(clamp_gate(gate, p.limit), p.alpha);
}

// The ends of silu over an interval of clamped gates. It falls to its turn and rises after it; next to the flush both
// the flushed value and the other are right.
inline Span silu(const Span& gate, double alpha) {
  Span s = map(gate, [&](double g) { return silu(g, alpha); });
  const double turn = kSiluTurn / alpha;
  const double a = s.lo;
  const double b = s.hi;
  s.lo = least(a, b);
  s.hi = greatest(a, b);
  if (gate.lo < turn && gate.hi > turn) s.lo = least(s.lo, silu(turn, alpha));
  if (std::fabs(alpha * gate.value - kSigmoidFlush) < 0.2) {
    s.lo = least(s.lo, -1e-35);
    s.hi = 0;
  }
  return s;
}

// Whether some number of the span is subnormal in binary32, which kernels take for 0.
inline bool may_flush_to_zero(const Span& s) {
  constexpr double kLeastNormal = 0x1p-126;
  const bool holds_zero = s.lo <= 0 && s.hi >= 0;
  return holds_zero || std::fmin(std::fabs(s.lo), std::fabs(s.hi)) < kLeastNormal;
}

// A factor or a product that may be flushed lets h be 0 too. Adds, relative, 5 * 2^-23 for the reciprocal, the sum and the products, and (1 - sigmoid) (|alpha gate| + 2) 2^-23 for
// the rounded argument of exp2 and exp2 itself.
inline Span swiglu(const Span& up, const Span& gate, const Swiglu& p) {
  const Span u = map(up, [&](double v) { return clamp_up(v, p.limit) + p.beta; });
  const Span g = map(gate, [&](double v) { return clamp_gate(v, p.limit); });
  const Span s = silu(g, p.alpha);
  const Span h = u * s;
  const double z = p.alpha * g.value;
  const double rel = (5 + (std::fabs(z) + 2) / (1 + std::exp(z))) * 0x1p-23;
  const Span wide{h.value, h.lo - rel * std::fabs(h.lo), h.hi + rel * std::fabs(h.hi)};
  const bool may_flush = may_flush_to_zero(up) || may_flush_to_zero(g) || may_flush_to_zero(s) ||
                         may_flush_to_zero(wide);
  return may_flush ? Span{wide.value, least(wide.lo, 0.0), greatest(wide.hi, 0.0)} : wide;
}

}  // namespace octet::reference
