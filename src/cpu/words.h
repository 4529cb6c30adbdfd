// SPDX-License-Identifier: Apache-2.0
// Activations as 16-bit words: the integers of digits.h for kernels that multiply words. Same numbers, same sums.
//
//   row = the records of its blocks, and with three planes the low words of its blocks
//   record of a block of G numbers, little-endian
//     G words, in each four of elements 0, 2, 1, 3         A, or its high part: A = 2^7 high + low, low in -64 ... 63
//     [f32 scale][i32 offset]                              as in digits.h, of A or its high part: scale = unit / 2 * 2^7 * gain
//     [u32 low_pairs]                                      three planes only: bit p is set where words 2 p and 2 p + 1 have low
//                                                          words that are not zero
//   low words of a block
//     G words in the same order                            zeros where it has none
//     [i32 offset]                                         -12 * their sum
//
// Low words stand apart, and kernels take pairs of them one by one, because few numbers need them: of BF16 numbers those below
// 2^-7 of a block's largest, of MXFP8 numbers those below 2^-11. A high part fits 16 bits as |A| <= 2^22: where it would be
// 2^15, it is one less and the low word 64 ... 128.
//
// The order is that of a panel's bytes: a lane's even bytes are one vector of pairs, its odd bytes another.
#pragma once

#include <cstdint>
#include <cstring>

#include "cpu/digits.h"

namespace octet::cpu {

constexpr int kLowWordBits = 7;

template <int64_t kBlock, int kPlanes>
struct WordRecord : IntegerRecord<kBlock, kPlanes> {
  static constexpr int64_t kBytes = WordRecord::kEnd;
  static constexpr int64_t kLowPairs = WordRecord::kHasThird;  // of the u32 low_pairs
  static constexpr int64_t kLowOffset = 2 * kBlock;
  static constexpr int64_t kLowBytes = kPlanes == 3 ? kLowOffset + 4 : 0;
  // Which word element k is; its own inverse.
  static constexpr int64_t word(int64_t k) { return k / 4 * 4 + k % 2 * 2 + k / 2 % 2; }
  static uint32_t low_pairs(const uint8_t* record) {
    uint32_t pairs = 0;
    if constexpr (kPlanes == 3) std::memcpy(&pairs, record + kLowPairs, sizeof pairs);
    return pairs;
  }
  // A, a multiple of unit(), which is half of what digits.h calls so.
  static int32_t value(const uint8_t* record, const uint8_t* low_words, int64_t k) {
    int16_t high, low;
    std::memcpy(&high, record + 2 * word(k), sizeof high);
    if (low_pairs(record) == 0) return high;
    std::memcpy(&low, low_words + 2 * word(k), sizeof low);
    return (1 << kLowWordBits) * high + low;
  }
  static float unit(const uint8_t* record) {
    float scale;
    std::memcpy(&scale, record + WordRecord::kScale, sizeof scale);
    return low_pairs(record) == 0 ? scale : scale / (1 << kLowWordBits);
  }
};
// Of a block: its record and its low words.
constexpr int64_t word_block_bytes(WeightFormat format, int planes) {
  const int64_t block = scale_block(format);
  return planes == 3 ? 4 * block + 16 : 2 * block + 8;
}
static_assert(WordRecord<kMxBlock, 3>::kBytes + WordRecord<kMxBlock, 3>::kLowBytes ==
              word_block_bytes(WeightFormat::kMxfp4, 3));
static_assert(WordRecord<kNvBlock, 2>::kBytes == word_block_bytes(WeightFormat::kNvfp4, 2));

namespace digits {

// The record and the low words of one block; false if it has none.
template <WeightFormat kFormat, int kPlanes>
[[gnu::always_inline]] inline bool encode_word_block(const float* v, uint8_t* record,
                                                     uint8_t* low_words) {
  constexpr int64_t kBlock = scale_block(kFormat);
  using Record = WordRecord<kBlock, kPlanes>;
  Integers<kBlock> a;
  if (!to_digit_integers<kBlock, kPlanes>(v, a)) return false;
  int16_t high[kBlock], low[kBlock];
  uint32_t low_pairs = 0;
  int32_t low_sum = 0;
  for (int64_t k = 0; k < kBlock; ++k) {
    constexpr int32_t kHalf = 1 << (kLowWordBits - 1);
    const int32_t rounded = a.has_third ? (a.values[k] + kHalf) >> kLowWordBits : a.values[k];
    const int32_t main = rounded > INT16_MAX ? INT16_MAX : rounded;
    const int32_t rest = a.has_third ? a.values[k] - main * (1 << kLowWordBits) : 0;
    high[Record::word(k)] = static_cast<int16_t>(main);
    low[Record::word(k)] = static_cast<int16_t>(rest);
    low_sum += rest;
    a.values[k] = main;
  }
  for (int64_t i = 0; i < kBlock; ++i) low_pairs |= low[i] != 0 ? uint32_t{1} << (i / 2) : 0;
  if (a.has_third) a.shift -= kLowWordBits;
  store_record_end<kFormat>(a, record);
  std::memcpy(record, high, sizeof high);
  if constexpr (kPlanes == 3) {
    const int32_t low_offset = -12 * low_sum;
    std::memcpy(record + Record::kLowPairs, &low_pairs, sizeof low_pairs);
    std::memcpy(low_words, low, sizeof low);
    std::memcpy(low_words + Record::kLowOffset, &low_offset, sizeof low_offset);
  }
  return true;
}

}  // namespace digits
}  // namespace octet::cpu
