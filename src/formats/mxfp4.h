// SPDX-License-Identifier: Apache-2.0
// MXFP4 weights: E2M1 with one UE8M0 for 32 elements along K. Decoded values are exact in BF16 for scale codes
// 0 ... 252; an element times its scale of 2^128 and more (codes 253, 254) is infinite. semantics.md section 1.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/shape.h"
#include "formats/e2m1.h"
#include "formats/ue8m0.h"

namespace octet::formats {

struct Mxfp4Block {  // one block's codes; its scale stands in a tensor of its own
  uint8_t pairs[kMxBlock / 2];
};
static_assert(sizeof(Mxfp4Block) == 16);

constexpr uint8_t kMxfp4LastFinite = 252;  // scale code: 6 times the next is infinite

constexpr float mxfp4_to_f32(uint8_t e2m1, uint8_t ue8m0) {
  return e2m1_to_f32(e2m1) * ue8m0_to_f32(ue8m0);
}

// The smallest power of two with amax <= 6 * 2^(code - 127), in 0 ... 254; 0 for a zero block. [D]
inline uint8_t mxfp4_scale_code(double amax) {
  if (!(amax > 0)) return 0;
  int e = 0;
  const double m = std::frexp(amax / 6.0, &e);  // amax / 6 = m * 2^e, 0.5 <= m < 1
  const int code = e - 1 + (m > 0.5 ? 1 : 0) + 127;
  return static_cast<uint8_t>(code < 0 ? 0 : code > 254 ? 254 : code);
}

}  // namespace octet::formats
