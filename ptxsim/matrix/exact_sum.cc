// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/matrix/exact_sum.h"

#include <bit>
#include <cmath>

namespace octet::ptxsim::matrix {
namespace {

constexpr uint64_t kDigitMask = 0xFFFFFFFFU;

}  // namespace

void ExactSum::add(double value) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // |fraction| in [1/2, 1)
  const auto significand = static_cast<int64_t>(std::ldexp(fraction, 53));
  if (significand == 0) return;
  const bool is_negative = significand < 0;
  const auto magnitude = static_cast<uint64_t>(is_negative ? -significand : significand);
  const int at = exponent - 53 - kLowestExponent;
  const int digit = at / 32, shift = at % 32;
  const uint64_t low = (magnitude & kDigitMask) << shift;  // 53 bits, shifted, are three digits
  const uint64_t high = (magnitude >> 32) << shift;
  const uint64_t parts[3] = {low & kDigitMask, (low >> 32) + (high & kDigitMask), high >> 32};
  for (int i = 0; i < 3; ++i) {
    const auto part = static_cast<int64_t>(parts[i]);
    digits_[digit + i] += is_negative ? -part : part;
  }
}

float ExactSum::round_to_f32() const {
  std::array<int64_t, kDigits> digits = digits_;
  const auto carry = [&] {
    for (int i = 0; i + 1 < kDigits; ++i) {
      const int64_t over = digits[i] >> 32;  // rounds down, so that what stays is not negative
      digits[i] -= over * (int64_t{1} << 32);
      digits[i + 1] += over;
    }
  };
  carry();
  const bool is_negative = digits[kDigits - 1] < 0;
  if (is_negative) {
    for (int64_t& digit : digits) digit = -digit;
    carry();
  }
  int top = kDigits - 1;
  while (top >= 0 && digits[top] == 0) --top;
  if (top < 0) return 0;
  // The upper 64 bits and whether anything stands below them: more than f32's 24, so an odd last bit is enough to round.
  uint64_t head = static_cast<uint64_t>(digits[top]) << 32;
  if (top > 0) head |= static_cast<uint64_t>(digits[top - 1]);
  bool is_inexact = false;
  for (int i = top - 2; i >= 0; --i) is_inexact |= digits[i] != 0;
  const int spare = std::countl_zero(head);
  head <<= spare;
  int64_t lower = 0;
  if (spare > 0 && top > 1) lower = digits[top - 2] >> (32 - (spare < 32 ? spare : 32));
  head |= static_cast<uint64_t>(lower);
  uint64_t odd = head >> 11;  // 53 bits
  if ((head & 0x7FF) != 0 || is_inexact) odd |= 1;
  const int exponent = kLowestExponent + 32 * (top - 1) - spare + 11;
  const double value = std::ldexp(static_cast<double>(odd), exponent);
  return static_cast<float>(is_negative ? -value : value);
}

float round_pair_to_f32(double value, double error) {
  if (error == 0) return static_cast<float>(value);
  // Rounded to odd in double: of the two neighbours of the exact sum the one whose last bit is set.
  auto bits = std::bit_cast<uint64_t>(value);
  if ((bits & 1) == 0) {
    const bool away = (error > 0) == (value > 0);
    bits += away ? 1 : -1;
  }
  return static_cast<float>(std::bit_cast<double>(bits));
}

}  // namespace octet::ptxsim::matrix
