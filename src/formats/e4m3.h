// SPDX-License-Identifier: Apache-2.0
// E4M3 (the FN variant): sign, 4 exponent bits with bias 7, 3 mantissa bits. Largest 448 (0x7E), smallest
// normal 2^-6, subnormal step 2^-9, 0x7F and 0xFF are NaN, no infinities. semantics.md section 1.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "formats/bf16.h"

namespace octet::formats {

constexpr float kE4m3Max = 448.0F;
constexpr uint8_t kE4m3Nan = 0x7F;

constexpr bool e4m3_is_nan(uint8_t code) { return (code & 0x7F) == 0x7F; }

constexpr float e4m3_decode_slow(uint8_t code) {
  if (e4m3_is_nan(code)) return std::numeric_limits<float>::quiet_NaN();
  const int e = (code >> 3) & 15;
  const int m = code & 7;
  float v = static_cast<float>(e == 0 ? m : 8 + m) * 0x1p-9F;
  for (int i = 1; i < e; ++i) v *= 2.0F;
  return (code & 0x80) != 0 ? -v : v;
}

constexpr std::array<float, 256> kE4m3Values = [] {
  std::array<float, 256> t{};
  for (int i = 0; i < 256; ++i)
    t[static_cast<size_t>(i)] = e4m3_decode_slow(static_cast<uint8_t>(i));
  return t;
}();

constexpr float e4m3_to_f32(uint8_t code) { return kE4m3Values[code]; }

// Nearest, ties to even, saturating at 448 (infinities too); NaN to 0x7F; the sign of zero is kept.
constexpr uint8_t e4m3_from_f32(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  const uint32_t sign = (bits >> 24) & 0x80U;
  const uint32_t mag = bits & 0x7FFFFFFFU;
  if (mag > 0x7F800000U) return kE4m3Nan;
  if (mag >= std::bit_cast<uint32_t>(464.0F)) return static_cast<uint8_t>(sign | 0x7EU);
  if (mag < std::bit_cast<uint32_t>(
                0x1p-6F)) {  // subnormal: a multiple of 2^-9; adding 2^14 rounds there
    const float sum = std::bit_cast<float>(mag) + 0x1p14F;
    return static_cast<uint8_t>(sign |
                                (std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(0x1p14F)));
  }
  const uint32_t rounded = mag + 0x7FFFFU + ((mag >> 20) & 1U);
  const uint32_t code = (rounded >> 20) - ((127U - 7U) << 3);
  return static_cast<uint8_t>(sign | (code > 0x7EU ? 0x7EU : code));
}

inline uint8_t e4m3_from_f64(double v) { return e4m3_from_f32(f32_to_odd(v)); }

}  // namespace octet::formats
