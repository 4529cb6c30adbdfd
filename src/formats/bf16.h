// SPDX-License-Identifier: Apache-2.0
// BF16: the upper half of binary32. Conversions round to nearest, ties to even; NaN becomes 0x7FC0.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/dtype.h"

namespace octet::formats {

constexpr float bf16_to_f32(Bf16 v) {
  return std::bit_cast<float>(static_cast<uint32_t>(v.bits) << 16);
}

constexpr Bf16 bf16_from_f32(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return {0x7FC0};
  return {static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16)};
}

// Binary64 to binary32, rounded to odd: what is cut off stays visible in the last bit, so that one more rounding, to at
// most 22 bits, is the only one. Overflow gives the largest finite number.
inline float f32_to_odd(double v) {
  float f = static_cast<float>(v);
  if (static_cast<double>(f) == v || std::isnan(v)) return f;
  if (std::isinf(f)) f = std::copysign(std::numeric_limits<float>::max(), f);
  uint32_t bits = std::bit_cast<uint32_t>(f);
  if (std::fabs(static_cast<double>(f)) > std::fabs(v)) --bits;  // towards zero
  return std::bit_cast<float>(bits | 1U);
}

inline Bf16 bf16_from_f64(double v) { return bf16_from_f32(f32_to_odd(v)); }

}  // namespace octet::formats
