// SPDX-License-Identifier: Apache-2.0
// MXFP8 activations: E4M3 with one UE8M0 for 32 elements. Two quantisers: that of x (semantics.md section 3) and
// that of h (section 7). They differ in what they do with zero, NaN and infinite blocks and with subnormals.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/shape.h"
#include "formats/e4m3.h"
#include "formats/ue8m0.h"

namespace octet::formats {

struct Mxfp8Block {  // one block's codes; its scale stands in a tensor of its own
  uint8_t codes[kMxBlock];
};
static_assert(sizeof(Mxfp8Block) == 32);

constexpr float kInv448 = 0x1.24924ap-9F;  // fp32(1/448), bits 0x3B124925
static_assert(std::bit_cast<uint32_t>(kInv448) == 0x3B124925U);

// 2^(127 - code) for code 1 ... 253; the caller handles the ends.
constexpr float ue8m0_inverse(int code) {
  return std::bit_cast<float>(static_cast<uint32_t>(254 - code) << 23);
}

// ---- x: section 3

// The scale code of a block of x from the largest magnitude of its numbers; NaN if there is none.
constexpr uint8_t x_scale_code(float amax) {
  const float v = amax * kInv448;
  if (v <= 0) return 0;
  const int code = ue8m0_ceil_code(v);
  return static_cast<uint8_t>(code > 254 ? 254 : code);
}

// One element of x under the block's code: NaN and, under code 254, infinities become 0x7E.
inline uint8_t x_code(float x, uint8_t scale_code) {
  const float inverse = scale_code == 0 || scale_code == 254 ? 0.0F : ue8m0_inverse(scale_code);
  const float y = x * inverse;
  return e4m3_from_f32(std::isnan(y) ? kE4m3Max : y);  // e4m3_from_f32 saturates
}

// ---- h: section 7

// Binary32 subnormals to zero of the same sign.
inline float flush_subnormal(float v) {
  return std::fabs(v) < 0x1p-126F ? std::copysign(0.0F, v) : v;
}

// The scale code of a block of h from the largest magnitude of its numbers (flushed); an all-zero block counts
// as 448. An infinite amax gives 255: the block is NaN.
constexpr uint8_t h_scale_code(float amax) {
  const int code = ue8m0_ceil_code((amax == 0 ? kE4m3Max : amax) * kInv448);
  return static_cast<uint8_t>(code > 255 ? 255 : code);
}

// One element of h under the block's code; NaN becomes 0x7F.
inline uint8_t h_code(float h, uint8_t scale_code) {
  const double inverse =
      std::ldexp(1.0, 127 - scale_code);  // code 0: 2^127; code 254: 2^-127, no flush
  return e4m3_from_f32(
      flush_subnormal(static_cast<float>(static_cast<double>(flush_subnormal(h)) * inverse)));
}

}  // namespace octet::formats
