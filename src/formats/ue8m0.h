// SPDX-License-Identifier: Apache-2.0
// UE8M0: code c means 2^(c - 127) for c = 0 ... 254; 255 is NaN; code 0 is 2^-127, a binary32 subnormal.
// semantics.md section 1.
#pragma once

#include <bit>
#include <cstdint>

namespace octet::formats {

constexpr uint8_t kUe8m0Nan = 255;

constexpr float ue8m0_to_f32(uint8_t code) {
  const uint32_t bits = code == 0     ? 0x00400000U
                        : code == 255 ? 0x7FC00000U
                                      : static_cast<uint32_t>(code) << 23;
  return std::bit_cast<float>(bits);
}

// The exponent code of a value v >= 0 rounded up to a power of two: v <= 2^-127 gives 0, subnormals above it 1;
// infinities and NaN give 255 or 256. semantics.md section 3, step 3 and section 7.
constexpr int ue8m0_ceil_code(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v) & 0x7FFFFFFFU;
  const int e = static_cast<int>(bits >> 23);
  const uint32_t m = bits & 0x7FFFFFU;
  if (e == 0) return m > 0x400000U ? 1 : 0;
  return e + (m != 0 ? 1 : 0);
}

}  // namespace octet::formats
