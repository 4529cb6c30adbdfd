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

// One rounding from binary64: binary32 is taken to odd first, so that nothing is rounded twice.
inline Bf16 bf16_from_f64(double v) {
  if (std::isnan(v)) return {0x7FC0};
  float f = static_cast<float>(v);
  if (std::isinf(f) && !std::isinf(v)) f = std::copysign(std::numeric_limits<float>::max(), f);
  if (static_cast<double>(f) != v) {
    uint32_t bits = std::bit_cast<uint32_t>(f);
    const bool away = std::fabs(static_cast<double>(f)) > std::fabs(v);
    if (away) --bits;  // towards zero
    f = std::bit_cast<float>(bits | 1U);
  }
  return bf16_from_f32(f);
}

}  // namespace octet::formats
