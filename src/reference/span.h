// SPDX-License-Identifier: Apache-2.0
// A value with the least and the greatest legitimate one, and the steps that carry such an interval through a layer.
// Every step that rounds in binary32 widens the interval by what that rounding can do; monotone steps map both ends.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/bf16.h"

namespace octet::reference {

struct Span {
  double value = 0, lo = 0, hi = 0;
};

constexpr double kUnitRoundoff = 0x1p-24;  // of binary32

// Unlike std::min and std::max these spread NaN: an end that is not known must not be lost.
inline double least(double a, double b) {
  return std::isnan(a) ? a : b < a || std::isnan(b) ? b : a;
}
inline double greatest(double a, double b) {
  return std::isnan(a) ? a : b > a || std::isnan(b) ? b : a;
}

template <class F>
Span map(const Span& s, const F& f) {
  return {f(s.value), f(s.lo), f(s.hi)};
}

// No interval around an infinity or a NaN.
inline Span exact_if_odd(const Span& s) {
  return std::isfinite(s.value) ? s : Span{s.value, s.value, s.value};
}

// An interval always holds its own value; one end of a product of infinities may be unknown.
inline Span closed(const Span& s) {
  const bool infinite = std::isinf(s.value);
  return {s.value, infinite && std::isnan(s.lo) ? s.value : least(s.lo, s.value),
          infinite && std::isnan(s.hi) ? s.value : greatest(s.hi, s.value)};
}

// Whether a result is right: NaN only where the value is NaN, else inside a closed interval.
inline bool is_inside(double got, const Span& s) {
  if (std::isnan(s.value)) return std::isnan(got);
  const bool known = !std::isnan(s.lo) && !std::isnan(s.hi);
  return !known || (got >= s.lo && got <= s.hi);
}

// An accumulator times a binary32 factor, one more rounding.
inline Span scaled(const Span& s, double factor) {
  const double a = s.lo * factor;
  const double b = s.hi * factor;
  const double pad = kUnitRoundoff * greatest(std::fabs(a), std::fabs(b));
  return exact_if_odd({s.value * factor, least(a, b) - pad, greatest(a, b) + pad});
}

// An accumulator plus a bias, one more rounding.
inline Span shifted(const Span& s, double bias) {
  const double pad = kUnitRoundoff * (std::fabs(s.value) + std::fabs(bias));
  return exact_if_odd({s.value + bias, s.lo + bias - pad, s.hi + bias + pad});
}

inline Span operator*(const Span& a, const Span& b) {
  const double c[] = {a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi};
  return {a.value * b.value, least(least(c[0], c[1]), least(c[2], c[3])),
          greatest(greatest(c[0], c[1]), greatest(c[2], c[3]))};
}

// One rounding to BF16.
inline double bf16_round(double v) { return formats::bf16_to_f32(formats::bf16_from_f64(v)); }
inline Span bf16_round(const Span& s) {
  return map(s, [](double v) { return bf16_round(v); });
}

// Half the distance between the BF16 neighbours of v.
inline double bf16_half_ulp(double v) {
  int e = 0;
  if (std::isfinite(v)) std::frexp(v, &e);
  return std::ldexp(0.5, std::max(e - 8, -133));
}

}  // namespace octet::reference
