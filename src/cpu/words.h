// SPDX-License-Identifier: Apache-2.0
// Activations as 16-bit words: the integers of digits.h for kernels that multiply words. Same numbers, same sums.
//
//   record of a block of G numbers, little-endian
//     G words, in each four of elements 0, 2, 1, 3         A, or its low word (then A = 2^16 high + low, both signed)
//     [f32 scale][i32 offset]                              as in digits.h
//     [u32 has_high][G high words, in the same order]      records of three planes only; zeros where it has none
//
// The order is that of a panel's bytes: a lane's even bytes are one vector of pairs, its odd bytes another.
#pragma once

#include <cstdint>
#include <cstring>

#include "cpu/digits.h"

namespace octet::cpu {

template <int64_t kBlock, int kPlanes>
struct WordRecord {
  // Byte offsets.
  static constexpr int64_t kScale = 2 * kBlock;
  static constexpr int64_t kOffset = kScale + 4;
  static constexpr int64_t kHasHigh = kOffset + 4;
  static constexpr int64_t kHigh = kHasHigh + 4;
  static constexpr int64_t kBytes = kPlanes == 3 ? kHigh + 2 * kBlock : kHasHigh;
  // Which word element k is.
  static constexpr int64_t word(int64_t k) { return k / 4 * 4 + k % 2 * 2 + k / 2 % 2; }
  static int32_t value(const uint8_t* record, int64_t k) {
    int16_t low, high = 0;
    std::memcpy(&low, record + 2 * word(k), sizeof low);
    if constexpr (kPlanes == 3) std::memcpy(&high, record + kHigh + 2 * word(k), sizeof high);
    return 65536 * high + low;
  }
};
constexpr int64_t word_record_bytes(WeightFormat format, int planes) {
  const int64_t block = scale_block(format);
  return planes == 3 ? 4 * block + 12 : 2 * block + 8;
}
static_assert(WordRecord<kMxBlock, 2>::kBytes == word_record_bytes(WeightFormat::kMxfp4, 2));
static_assert(WordRecord<kNvBlock, 3>::kBytes == word_record_bytes(WeightFormat::kNvfp4, 3));

namespace digits {

// The record of one block; false if it has none.
template <WeightFormat kFormat, int kPlanes>
[[gnu::always_inline]] inline bool encode_word_block(const float* v, uint8_t* record) {
  constexpr int64_t kBlock = scale_block(kFormat);
  using Record = WordRecord<kBlock, kPlanes>;
  static_assert(Record::kScale == DigitRecord<kBlock, kPlanes>::kScale);
  Integers<kBlock> a;
  if (!to_digit_integers<kBlock, kPlanes>(v, a)) return false;
  store_scale_and_offset<kFormat>(a, record);
  int16_t low[kBlock], high[kBlock];
  for (int64_t k = 0; k < kBlock; ++k) {
    const auto word = static_cast<int16_t>(a.values[k]);
    low[Record::word(k)] = word;
    high[Record::word(k)] = static_cast<int16_t>((a.values[k] - word) >> 16);
  }
  std::memcpy(record, low, sizeof low);
  if constexpr (kPlanes == 3) {
    const uint32_t flag = a.has_third ? 1 : 0;
    std::memcpy(record + Record::kHasHigh, &flag, sizeof flag);
    std::memcpy(record + Record::kHigh, high, sizeof high);
  }
  return true;
}

}  // namespace digits
}  // namespace octet::cpu
