// SPDX-License-Identifier: Apache-2.0
// Activations as the integer kernels read them: the numbers of a scale block are integers times one power of two, an
// integer is two or three digits of base 256 in -128 ... 127, a digit is a byte.
//
//   record of a block of G numbers (G = 32 for MXFP4 weights, 16 for NVFP4), little-endian
//     G / 8 times [8 lowest digits][8 second digits]        a pair of eights for each line of a panel's tile
//     [f32 scale][i32 offset]
//     [u32 has_third][G third digits]                       records of three planes only; zeros where it has none
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

// Where in a record stands what both forms have (words.h has the other): byte offsets.
template <int64_t kBlock, int kPlanes>
struct IntegerRecord {
  static constexpr int64_t kScale = 2 * kBlock;
  static constexpr int64_t kOffset = kScale + 4;
  static constexpr int64_t kHasThird = kOffset + 4;
  static constexpr int64_t kEnd = kPlanes == 3 ? kHasThird + 4 : kHasThird;
};

template <int64_t kBlock, int kPlanes>
struct DigitRecord : IntegerRecord<kBlock, kPlanes> {
  static constexpr int64_t kThird = DigitRecord::kHasThird + 4;
  static constexpr int64_t kBytes = kPlanes == 3 ? kThird + kBlock : DigitRecord::kEnd;
  // Where element k's digit of a plane stands.
  static constexpr int64_t digit(int plane, int64_t k) {
    return plane == 2 ? kThird + k : k / 8 * 16 + plane * 8 + k % 8;
  }
  // The inverse, of a byte below kScale or from kThird on.
  struct Element {
    int plane;
    int64_t k;
  };
  static constexpr Element element(int64_t at) {
    if (at >= kThird) return {2, at - kThird};
    return {static_cast<int>(at / 8 % 2), at / 16 * 8 + at % 8};
  }
  static int32_t value(const uint8_t* record, int64_t k) {
    int32_t v = 0;
    for (int plane = kPlanes - 1; plane >= 0; --plane)
      v = 256 * v + static_cast<int8_t>(record[digit(plane, k)]);
    return v;
  }
};
constexpr int64_t digit_record_bytes(WeightFormat format, int planes) {
  const int64_t block = scale_block(format);
  return planes * block + (planes == 3 ? 12 : 8);
}
static_assert(DigitRecord<kMxBlock, 2>::kBytes == digit_record_bytes(WeightFormat::kMxfp4, 2));
static_assert(DigitRecord<kNvBlock, 3>::kBytes == digit_record_bytes(WeightFormat::kNvfp4, 3));

// E4M3 scales are taken as binary32 numbers 2^-120 too small, the bits shifted into place: half of it is undone in the
// records, half in the sums, so that nothing on the way leaves binary32.
constexpr float digit_gain(WeightFormat format) {
  return format == WeightFormat::kNvfp4 ? 0x1p60F : 1.0F;
}

// A block whose largest magnitude is neither 0 nor in this range has no record, and its row none (NaN, infinities too):
// then nothing on the way over- or underflows that would not in the sum of the products. The least: half its unit of three
// planes, 2^-80, times the least E4M3 scale and 1 / digit_gain is 2^-149. The largest: a block's 16 integers of 2^22 times 12
// times half the unit and digit_gain stay below 2^128.
constexpr float kLeastDigitAmax = 0x1p-58F;
constexpr float kMostDigitAmax = 0x1p60F;

namespace digits {

constexpr float pow2(int exponent) {
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
  int32_t most = 0;
  for (int64_t k = 0; k < kBlock; ++k) {
    const int32_t bits = std::bit_cast<int32_t>(v[k]) & 0x7FFFFFFF;
    most = bits > most ? bits : most;
  }
  return static_cast<uint32_t>(most);
}

// A block's numbers as integers times one power of two.
template <int64_t kBlock>
struct Integers {
  int32_t values[kBlock];
  int shift;  // the unit is 2^-shift
  bool has_third;
};

// False: the block has no such form.
template <int64_t kBlock, int kPlanes>
[[gnu::always_inline]] inline bool to_digit_integers(const float* v, Integers<kBlock>& out) {
  const uint32_t most = amax_bits<kBlock>(v);
  const auto amax = std::bit_cast<float>(most);
  if (most != 0 && !(amax >= kLeastDigitAmax && amax <= kMostDigitAmax)) return false;
  const int exponent = most == 0 ? 0 : static_cast<int>(most >> 23) - 127;
  out.shift = 14 - exponent;
  if (amax * pow2(out.shift) >= 32639.5F) --out.shift;
  to_integers<kBlock>(v, out.shift, out.values);
  out.has_third = kPlanes == 3 && !is_exact<kBlock>(v, out.shift, out.values);
  if (out.has_third) {
    out.shift = 21 - exponent;
    to_integers<kBlock>(v, out.shift, out.values);
  }
  return true;
}

// What follows a record's numbers in both forms.
template <WeightFormat kFormat>
[[gnu::always_inline]] inline void store_record_end(const Integers<scale_block(kFormat)>& a,
                                                    uint8_t* record) {
  constexpr int64_t kBlock = scale_block(kFormat);
  using Record = IntegerRecord<kBlock, 2>;
  int32_t sum = 0;
  for (int64_t k = 0; k < kBlock; ++k) sum += a.values[k];
  const float scale = pow2(-a.shift - 1) * digit_gain(kFormat);
  const int32_t offset = -12 * sum;
  std::memcpy(record + Record::kScale, &scale, sizeof scale);
  std::memcpy(record + Record::kOffset, &offset, sizeof offset);
}

// The record of one block; false if it has none. In a header so that each instruction set compiles its own: same bytes.
template <WeightFormat kFormat, int kPlanes>
[[gnu::always_inline]] inline bool encode_block(const float* v, uint8_t* record) {
  constexpr int64_t kBlock = scale_block(kFormat);
  using Record = DigitRecord<kBlock, kPlanes>;
  Integers<kBlock> a;
  if (!to_digit_integers<kBlock, kPlanes>(v, a)) return false;
  store_record_end<kFormat>(a, record);
  uint8_t digits[kPlanes][kBlock];
  for (int plane = 0; plane < kPlanes; ++plane) {
    for (int64_t k = 0; k < kBlock; ++k) {
      const auto digit = static_cast<int8_t>(a.values[k]);
      digits[plane][k] = static_cast<uint8_t>(digit);
      a.values[k] = (a.values[k] - digit) >> 8;
    }
  }
  for (int64_t k = 0; k < kBlock; k += 8) {
    std::memcpy(record + 2 * k, digits[0] + k, 8);
    std::memcpy(record + 2 * k + 8, digits[1] + k, 8);
  }
  if constexpr (kPlanes == 3) {
    const uint32_t flag = a.has_third ? 1 : 0;
    std::memcpy(record + Record::kHasThird, &flag, sizeof flag);
    std::memcpy(record + Record::kThird, digits[2], kBlock);
  }
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
