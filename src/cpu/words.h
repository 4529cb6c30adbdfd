// SPDX-License-Identifier: Apache-2.0
// Activations as 16-bit words: the integers of digits.h for kernels that multiply words. Same numbers, same sums.
//
//   row = the records of its blocks, and with three planes the high words of its blocks
//   record of a block of G numbers, little-endian
//     G words, in each four of elements 0, 2, 1, 3         A, or its low word (then A = 2^16 high + low, both signed)
//     [f32 scale][i32 offset]                              as in digits.h
//     [u32 has_third]                                      three planes only: has high words
//   high words of a block
//     G words in the same order                            zeros where it has none
//
// High words stand apart because few blocks need them: a row of many is read from second-level cache.
//
// The order is that of a panel's bytes: a lane's even bytes are one vector of pairs, its odd bytes another.
#pragma once

#include <cstdint>
#include <cstring>

#include "cpu/digits.h"

namespace octet::cpu {

template <int64_t kBlock, int kPlanes>
struct WordRecord : IntegerRecord<kBlock, kPlanes> {
  static constexpr int64_t kBytes = WordRecord::kEnd;
  static constexpr int64_t kHighBytes = kPlanes == 3 ? 2 * kBlock : 0;
  // Which word element k is; its own inverse.
  static constexpr int64_t word(int64_t k) { return k / 4 * 4 + k % 2 * 2 + k / 2 % 2; }
  static int32_t value(const uint8_t* record, const uint8_t* high_words, int64_t k) {
    int16_t low, high = 0;
    std::memcpy(&low, record + 2 * word(k), sizeof low);
    if constexpr (kPlanes == 3) std::memcpy(&high, high_words + 2 * word(k), sizeof high);
    return 65536 * high + low;
  }
};
// Of a block: its record and its high words.
constexpr int64_t word_block_bytes(WeightFormat format, int planes) {
  const int64_t block = scale_block(format);
  return planes == 3 ? 4 * block + 12 : 2 * block + 8;
}

namespace digits {

// The record and the high words of one block; false if it has none.
template <WeightFormat kFormat, int kPlanes>
[[gnu::always_inline]] inline bool encode_word_block(const float* v, uint8_t* record,
                                                     uint8_t* high_words) {
  constexpr int64_t kBlock = scale_block(kFormat);
  using Record = WordRecord<kBlock, kPlanes>;
  Integers<kBlock> a;
  if (!to_digit_integers<kBlock, kPlanes>(v, a)) return false;
  store_record_end<kFormat, kPlanes>(a, record);
  int16_t low[kBlock], high[kBlock];
  for (int64_t k = 0; k < kBlock; ++k) {
    const auto word = static_cast<int16_t>(a.values[k]);
    low[Record::word(k)] = word;
    high[Record::word(k)] = static_cast<int16_t>((a.values[k] - word) >> 16);
  }
  std::memcpy(record, low, sizeof low);
  if constexpr (kPlanes == 3) std::memcpy(high_words, high, sizeof high);
  return true;
}

}  // namespace digits
}  // namespace octet::cpu
