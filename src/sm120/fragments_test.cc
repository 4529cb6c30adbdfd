// SPDX-License-Identifier: Apache-2.0
#include "sm120/fragments.h"

#include <array>
#include <cstring>
#include <gtest/gtest.h>
#include <set>
#include <utility>
#include <vector>

#include "layouts/prepared.h"
#include "layouts/scale_layout.h"

namespace octet::sm120 {
namespace {

// A tile as a copy with a swizzle leaves it: the 16-byte pieces of row r change places by the row's number (PTX ISA 5.5.7).
std::vector<uint8_t> copied(const std::vector<uint8_t>& rows, int row_bytes) {
  std::vector<uint8_t> to(rows.size());
  for (size_t at = 0; at < rows.size(); ++at) {
    const int row = static_cast<int>(at) / row_bytes, in = static_cast<int>(at) % row_bytes;
    const int turn = row_bytes == 64 ? row / 2 % 4 : row % 8;
    to[static_cast<size_t>(row * row_bytes + (in / 16 ^ turn) * 16 + in % 16)] = rows[at];
  }
  return to;
}

template <class T>
T read(const std::vector<uint8_t>& from, int at) {
  T v;
  std::memcpy(&v, from.data() + at, sizeof(T));
  return v;
}
int byte_of(uint32_t word, int i) { return static_cast<int>(word >> (8 * i) & 0xFFU); }

// k slot of element i of a lane's registers of a, and of b (PTX ISA 9.7.14.5): both get the same element of the block there.
TEST(Sm120Fragments, GiveBothOperandsTheSameElementInEachSlot) {
  // The bytes say what they are: weight nibbles by k % 16 and, in another tile, k / 16; token bytes by k.
  std::vector<uint8_t> low(128 * 64), high(128 * 64), tokens(8 * 128);
  for (int row = 0; row < 128; ++row) {
    for (int k = 0; k < 128; ++k) {
      const auto at = static_cast<size_t>(row * 64 + k / 2);
      low[at] = static_cast<uint8_t>(low[at] | k % 16 << (4 * (k % 2)));
      high[at] = static_cast<uint8_t>(high[at] | k / 16 << (4 * (k % 2)));
    }
  }
  for (int token = 0; token < 8; ++token)
    for (int k = 0; k < 128; ++k)
      tokens[static_cast<size_t>(token * 128 + k)] = static_cast<uint8_t>(k);
  const auto low_there = copied(low, 64), high_there = copied(high, 64),
             tokens_there = copied(tokens, 128);
  for (int block = 0; block < 4; ++block) {
    for (int row = 0; row < 128; row += 5) {
      std::set<int> seen;
      for (int t = 0; t < 4; ++t) {
        const int at = weight_word_at(row, block, t);
        const auto w_low = read<uint32_t>(low_there, at), w_high = read<uint32_t>(high_there, at);
        const auto x =
            read<std::array<uint8_t, 8>>(tokens_there, token_words_at(row % 8, block, t));
        for (int i = 0; i < 4; ++i) {
          const auto k_of = [&](auto elements) {
            EXPECT_EQ(byte_of(elements(w_low), i) & 0xC3, 0) << "the middle four bits";
            return (byte_of(elements(w_high), i) >> 2) * 16 + (byte_of(elements(w_low), i) >> 2);
          };
          const int even = k_of(even_elements), odd = k_of(odd_elements);
          EXPECT_EQ(even, x[static_cast<size_t>(2 * i)]) << "prmt 0x6420";
          EXPECT_EQ(odd, x[static_cast<size_t>(2 * i + 1)]) << "prmt 0x7531";
          EXPECT_TRUE(seen.insert(even).second && seen.insert(odd).second);
          EXPECT_EQ(even / 32, block);
        }
      }
      EXPECT_EQ(seen.size(), 32U) << "each element of the block once";
    }
  }
}

// 32 lanes read from 32 banks.
TEST(Sm120Fragments, HaveNoTwoWordsOfWeightsInABank) {
  for (int block = 0; block < 4; ++block) {
    for (int row = 0; row < 128; row += 8) {
      std::set<int> banks;
      for (int lane = 0; lane < 32; ++lane)
        banks.insert(weight_word_at(row + lane / 4, block, lane % 4) / 4 % 32);
      EXPECT_EQ(banks.size(), 32U) << row << ' ' << block;
    }
  }
}

TEST(Sm120Fragments, FindARowsScalesInItsAtom) {
  for (int row = 0; row < 128; ++row)
    for (int block = 0; block < 4; ++block)
      EXPECT_EQ(scale_word_at(row) + block,
                layouts::scale_offset(ScaleLayout::k128x4, 4, row, block));
}

TEST(Sm120SumPlace, HasUpAndGateOfOneColumnOfHInALane) {
  std::set<std::pair<int, int>> seen;
  for (int w = 0; w < 8; ++w)
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 4; ++i) {
        const SumPlace at = sum_place(w, lane, i);
        EXPECT_TRUE(seen.emplace(at.stored_row, at.column).second);
        const layouts::W13Row row = layouts::w13_logical_row(at.stored_row);
        EXPECT_EQ(row.column, hidden_column(w, lane));
        EXPECT_EQ(row.is_gate, i / 2 == 1);
      }
  EXPECT_EQ(seen.size(), 128U * 8);
}
TEST(Sm120SumPlace, HasTwoNeighbouringColumnsOfARowInALane) {
  for (int w = 0; w < 8; ++w)
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 4; ++i)
        EXPECT_EQ(layouts::unshuffled_row(sum_place(w, lane, i).stored_row),
                  row_column(w, lane) + i / 2);
}

}  // namespace
}  // namespace octet::sm120
