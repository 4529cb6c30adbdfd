// SPDX-License-Identifier: Apache-2.0
// A tensor core's inner step: c plus a sum of products, rounded once.
//
//   kExact       the exact sum (to 2^-100 of its largest term), rounded to nearest, ties to even
//   kTruncated   a published model that agrees with hardware bit by bit for bf16 (Khattak and Mikaitis, arXiv 2512.07004): products and c
//                aligned to the largest exponent, cut to `fraction_bits` behind it, summed exactly, rounded towards zero
// The second was measured for mma.sync; that wgmma and tcgen05.mma are the same is not known.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ptxsim/insn/numeric.h"
#include "ptxsim/machine/machine.h"

namespace octet::ptxsim::insn {

constexpr int kTruncatedFractionBits = 25;  // two more than f32 has

// Two doubles that add up to a sum of doubles, nearly all of its bits.
struct Sum {
  double hi = 0, lo = 0;
  void add(double value) {
    const double s = hi + value, b = s - hi;
    lo += (hi - (s - b)) + (value - b);
    hi = s;
  }
  // Rounded to odd, so that a rounding to f32 behind it is right.
  float rounded() const { return float(fma_to_odd(hi, 1, lo)); }
};

inline float truncated_sum(const double* products, int count, float c, int fraction_bits) {
  int largest = c != 0 ? std::ilogb(c) : -1000;
  bool is_finite = std::isfinite(c);
  for (int i = 0; i < count; ++i) {
    is_finite &= std::isfinite(products[i]);
    if (is_finite && products[i] != 0) largest = std::max(largest, std::ilogb(products[i]));
  }
  if (!is_finite) {
    double sum = double(c);
    for (int i = 0; i < count; ++i) sum += products[i];
    return f32(bits32(float(sum)));
  }
  if (largest == -1000) return 0.0f;
  const auto cut = [&](double value) {
    return int64_t(std::trunc(std::ldexp(value, fraction_bits - largest)));
  };
  int64_t sum = cut(double(c));
  for (int i = 0; i < count; ++i) sum += cut(products[i]);
  const double exact = std::ldexp(double(sum), largest - fraction_bits);
  const auto near = float(exact);
  return std::fabs(double(near)) > std::fabs(exact) ? std::nextafter(near, 0.0f) : near;
}

// `products`: exact, of `count` pairs.
inline float add_products(machine::Arithmetic arithmetic, const double* products, int count,
                          float c) {
  if (arithmetic == machine::Arithmetic::kTruncated)
    return truncated_sum(products, count, c, kTruncatedFractionBits);
  Sum sum;
  sum.add(double(c));
  for (int i = 0; i < count; ++i) sum.add(products[i]);
  if (!std::isfinite(sum.hi)) return f32(bits32(float(sum.hi)));
  return sum.rounded();
}

}  // namespace octet::ptxsim::insn
