// SPDX-License-Identifier: Apache-2.0
// A sum of doubles without any rounding: fixed point from below the smallest bit of a double to above the largest number.
//
//   digit 0         digit 35  36           digit 68    72
//   2^-1152 ...     2^-32     2^0 ...      2^1024 ...  2^1152     digits of 32 bits, each in 64, so that carries may wait
//
// Slow, some 100 ns to clear and read: dot.h takes it only where a sum in double was not exact.
#pragma once

#include <array>
#include <cstdint>

namespace octet::ptxsim::matrix {

class ExactSum {
 public:
  // `value` is finite; at most 2^30 values.
  void add(double value);

  // Of all bits, rounded once to nearest even; beyond f32's range Inf. A sum that is zero is +0.
  float round_to_f32() const;

 private:
  static constexpr int kDigits = 73;
  static constexpr int kLowestExponent = -1152;  // of digit 0's lowest bit
  std::array<int64_t, kDigits> digits_ = {};
};

// `value` + `error`, the exact sum of two doubles (value = their sum rounded to nearest), rounded once to f32. Both finite.
float round_pair_to_f32(double value, double error);

}  // namespace octet::ptxsim::matrix
