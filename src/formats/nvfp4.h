// SPDX-License-Identifier: Apache-2.0
// NVFP4 weights: E2M1 with one E4M3 for 16 elements along K and a binary32 factor a tensor or an expert. A negative
// scale is its negative value, 0x7F and 0xFF are NaN. semantics.md section 1.
#pragma once

#include <cstdint>

#include "core/shape.h"
#include "formats/e2m1.h"
#include "formats/e4m3.h"

namespace octet::formats {

struct Nvfp4Block {  // one block's codes; its scale stands in a tensor of its own
  uint8_t pairs[kNvBlock / 2];
};
static_assert(sizeof(Nvfp4Block) == 8);

constexpr float kNvfp4Max = 6.0F * kE4m3Max;  // 2688: the largest element times the largest scale

// Without the binary32 factor; exact.
constexpr float nvfp4_to_f32(uint8_t e2m1, uint8_t e4m3) {
  return e2m1_to_f32(e2m1) * e4m3_to_f32(e4m3);
}

}  // namespace octet::formats
