// SPDX-License-Identifier: Apache-2.0
// E2M1: codes 0 ... 7 are 0, 0.5, 1, 1.5, 2, 3, 4, 6; bit 3 is the sign (8 is -0). No infinities, no NaN.
// Two a byte along K, element 2i in the low nibble. semantics.md section 1.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace octet::formats {

constexpr std::array<float, 16> kE2m1Values = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,
                                               4.0F,  6.0F,  -0.0F, -0.5F, -1.0F, -1.5F,
                                               -2.0F, -3.0F, -4.0F, -6.0F};

constexpr float e2m1_to_f32(uint8_t code) { return kE2m1Values[code & 15]; }

constexpr int e2m1_doubled(uint8_t code) { return static_cast<int>(2.0F * e2m1_to_f32(code)); }

// The code of element `idx` in packed pairs.
constexpr uint8_t e2m1_at(const uint8_t* pairs, int64_t idx) {
  return static_cast<uint8_t>((pairs[idx / 2] >> (idx % 2 * 4)) & 15);
}

constexpr uint8_t e2m1_pair(uint8_t low, uint8_t high) {
  return static_cast<uint8_t>((low & 15) | (high << 4));
}

// Nearest, ties to the even code, saturating at 6, the sign of zero kept. v is not NaN. double, so that a
// quotient that was rounded once is not rounded again.
constexpr uint8_t e2m1_from_f64(double v, bool negative) {
  const double a = v < 0 ? -v : v;
  // Halfway points between neighbours; at a tie the even code wins: 0.25 -> 0, 0.75 -> 1, 1.25 -> 1, ...
  const uint8_t code = a > 5.0     ? 7
                       : a >= 3.5  ? 6
                       : a > 2.5   ? 5
                       : a >= 1.75 ? 4
                       : a > 1.25  ? 3
                       : a >= 0.75 ? 2
                       : a > 0.25  ? 1
                                   : 0;
  return static_cast<uint8_t>(code | (negative ? 8 : 0));
}
constexpr uint8_t e2m1_from_f32(float v) {
  return e2m1_from_f64(static_cast<double>(v), (std::bit_cast<uint32_t>(v) >> 31) != 0);
}

}  // namespace octet::formats
