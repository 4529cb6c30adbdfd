// SPDX-License-Identifier: Apache-2.0
// Activations as the integer kernels read them: the numbers of a scale block are integers times one power of two, an
// integer is two or three digits of base 256 in -128 ... 127, a digit is a byte.
//
//   record of a block of G numbers (G = 32 for MXFP4 weights, 16 for NVFP4)
//     [plane 0: G bytes, lowest digits][plane 1: G bytes][plane 2: G bytes, of three planes only]
//     [f32 scale][i32 offset][u32 has_third, of three planes only]
//
//   x[k] = A[k] * unit        scale = unit / 2 * digit_gain(format)        offset = -12 * sum of A
//
// The kernels look a weight w up as 2 w + 12 = 0 ... 24, an unsigned byte: the half in `scale` and `offset` undo it. A
// block's sum is exact in int32: |2 w A| <= 12 * 2^22, times 32 numbers below 2^31.
//
// Two planes: unit 2^(e-14) where 2^e <= amax < 2^(e+1), or 2^(e-13) where the largest integer would pass 32639 = 127 *
// 256 + 127; integers rounded to nearest even. Three planes: the same where every number is exact so, else unit 2^(e-21),
// |A| <= 2^22: MXFP8 numbers are exact, which lie on a grid of 2^-18 of their block's largest, and so is every BF16 number
// of at least 2^-14 of it. semantics.md section 9 [D].
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "core/shape.h"

namespace octet::cpu {

constexpr int64_t kMostDigitBlock = kMxBlock;

template <int64_t kBlock, int kPlanes>
struct DigitRecord {
  static constexpr int64_t kScale = kPlanes * kBlock;  // byte offsets
  static constexpr int64_t kOffset = kScale + 4;
  static constexpr int64_t kHasThird = kOffset + 4;
  static constexpr int64_t kBytes = kPlanes == 3 ? kHasThird + 4 : kHasThird;
  static bool has_third(const uint8_t* record) {
    if constexpr (kPlanes == 3) return record[kHasThird] != 0;
    return false;
  }
};
constexpr int64_t digit_record_bytes(WeightFormat format, int planes) {
  return planes * scale_block(format) + (planes == 3 ? 12 : 8);
}

// E4M3 scales are taken as binary32 numbers 2^-120 too small, the bits shifted into place: half of it is undone in the
// records, half in the sums, so that nothing on the way leaves binary32.
constexpr float digit_gain(WeightFormat format) {
  return format == WeightFormat::kNvfp4 ? 0x1p60F : 1.0F;
}

// A block whose largest magnitude is neither 0 nor in this range has no record, and its row none (NaN, infinities too):
// then nothing on the way over- or underflows that would not in the sum of the products.
constexpr float kLeastDigitAmax = 0x1p-60F;
constexpr float kMostDigitAmax = 0x1p60F;

namespace digits {

inline float pow2(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

// Integers nearest to v times 2^shift, ties to even, all below 2^22: the low bits of a sum with 1.5 * 2^23.
template <int64_t kBlock>
[[gnu::always_inline]] inline void to_integers(const float* v, int shift, int32_t* out) {
  constexpr float kMagic = 0x1.8p23F;
  const float factor = pow2(shift);
  for (int64_t k = 0; k < kBlock; ++k) {
    const float sum = v[k] * factor + kMagic;
    out[k] = std::bit_cast<int32_t>(sum) - std::bit_cast<int32_t>(kMagic);
  }
}

template <int64_t kBlock>
[[gnu::always_inline]] inline bool is_exact(const float* v, int shift, const int32_t* integers) {
  const float unit = pow2(-shift);
  int32_t differ = 0;
  for (int64_t k = 0; k < kBlock; ++k)
    differ |= static_cast<float>(integers[k]) * unit != v[k] ? 1 : 0;
  return differ == 0;
}

template <int64_t kBlock>
[[gnu::always_inline]] inline uint32_t amax_bits(const float* v) {
  uint32_t most = 0;
  for (int64_t k = 0; k < kBlock; ++k) {
    const uint32_t bits = std::bit_cast<uint32_t>(v[k]) & 0x7FFFFFFFU;
    most = bits > most ? bits : most;
  }
  return most;
}

// The record of one block; false if it has none. In a header so that each instruction set compiles its own: same bytes.
template <WeightFormat kFormat, int kPlanes>
[[gnu::always_inline]] inline bool encode_block(const float* v, uint8_t* record) {
  constexpr int64_t kBlock = scale_block(kFormat);
  using Record = DigitRecord<kBlock, kPlanes>;
  const uint32_t most = amax_bits<kBlock>(v);
  const auto amax = std::bit_cast<float>(most);
  if (most != 0 && !(amax >= kLeastDigitAmax && amax <= kMostDigitAmax)) return false;
  const int exponent = most == 0 ? 0 : static_cast<int>(most >> 23) - 127;
  int shift = 14 - exponent;
  if (amax * pow2(shift) >= 32639.5F) --shift;
  int32_t integers[kBlock];
  to_integers<kBlock>(v, shift, integers);
  bool has_third = false;
  if constexpr (kPlanes == 3) {
    has_third = !is_exact<kBlock>(v, shift, integers);
    if (has_third) {
      shift = 21 - exponent;
      to_integers<kBlock>(v, shift, integers);
    }
    const uint32_t flag = has_third ? 1 : 0;
    std::memcpy(record + Record::kHasThird, &flag, sizeof flag);
  }
  int32_t sum = 0;
  for (int64_t k = 0; k < kBlock; ++k) sum += integers[k];
  for (int plane = 0; plane < kPlanes; ++plane) {
    for (int64_t k = 0; k < kBlock; ++k) {
      const auto digit = static_cast<int8_t>(integers[k]);
      record[plane * kBlock + k] = static_cast<uint8_t>(digit);
      integers[k] = (integers[k] - digit) >> 8;
    }
  }
  const float scale = pow2(-shift - 1) * digit_gain(kFormat);
  const int32_t offset = -12 * sum;
  std::memcpy(record + Record::kScale, &scale, sizeof scale);
  std::memcpy(record + Record::kOffset, &offset, sizeof offset);
  return true;
}

// A row of num_blocks blocks; false if one of them has no record.
template <WeightFormat kFormat, int kPlanes>
[[gnu::always_inline]] inline bool encode_row(const float* v, int64_t num_blocks, uint8_t* out) {
  constexpr int64_t kBlock = scale_block(kFormat);
  for (int64_t b = 0; b < num_blocks; ++b) {
    if (!encode_block<kFormat, kPlanes>(v + b * kBlock, out)) return false;
    out += DigitRecord<kBlock, kPlanes>::kBytes;
  }
  return true;
}

}  // namespace digits
}  // namespace octet::cpu
