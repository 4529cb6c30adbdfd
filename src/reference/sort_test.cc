// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <vector>

#include "formats/bf16.h"
#include "reference/reference.h"

namespace octet::reference {
namespace {

using Ints = std::vector<int32_t>;

struct Sorted {
  Ints expert, limit, to_permuted, to_expanded, tiles = {-7};
};

struct Local {
  int64_t tile, offset, experts;
};

Sorted run(const Ints& ids, int64_t top_k, Local local, size_t max_tiles) {
  Sorted s{Ints(max_tiles, -7), Ints(max_tiles, -7), Ints(ids.size(), -7),
           Ints(max_tiles * local.tile, -7)};
  moe_sort({{ids.data(), false},
            static_cast<int64_t>(ids.size()) / top_k,
            top_k,
            local.tile,
            local.offset,
            local.experts,
            s.expert.data(),
            s.limit.data(),
            s.to_permuted.data(),
            s.to_expanded.data(),
            s.tiles.data()});
  return s;
}

TEST(MoeSort, PadsEachExpertAndKeepsSlotsAscending) {
  const Sorted s = run({2, 0, 0, 2, 0, 1}, 2, {2, 0, 4}, 5);  // 6 slots over 4 experts: (6 + 4) / 2
  EXPECT_EQ(s.expert, (Ints{0, 0, 1, 2, 0}));
  EXPECT_EQ(s.limit, (Ints{2, 3, 5, 8, 0}));
  EXPECT_EQ(s.to_permuted, (Ints{6, 0, 1, 7, 2, 4}));
  EXPECT_EQ(s.to_expanded, (Ints{1, 2, 4, -1, 5, -1, 0, 3, -1, -1}));
  EXPECT_EQ(s.tiles[0], 4);
}

TEST(MoeSort, IdsOutsideTheLocalRangeGetMinusOne) {
  const Sorted s = run({0, 5, -1, 4}, 2, {8, 4, 2}, 2);  // 4 slots over 2 experts: (4 + 14) / 8
  EXPECT_EQ(s.to_permuted, (Ints{-1, 8, -1, 0}));
  EXPECT_EQ(s.expert, (Ints{0, 1})) << "tables count local experts";
  EXPECT_EQ(s.limit, (Ints{1, 9}));
}

TEST(MoeSort, RepeatedIdTakesARowForEachSlot) {
  EXPECT_EQ(run({1, 1}, 2, {8, 0, 2}, 2).to_permuted, (Ints{0, 1}));
}

TEST(MoeSort, NoTokensGiveNoTiles) { EXPECT_EQ(run({}, 6, {8, 0, 4}, 0).tiles[0], 0); }

TEST(MoePermute, CopiesRowsOfTokensAndZerosTheRest) {
  const std::vector<Bf16> x = {{10}, {11}, {20}, {21}};
  const Ints to_expanded = {3, -1, 0, 1, -1, -1};
  const Ints limit = {1, 4, 0};
  std::vector<Bf16> y(12, Bf16{0xFFFF});
  moe_permute({x.data(), to_expanded.data(), limit.data(), 2, 2, 2, 2, 6, y.data()});
  const std::vector<Bf16> want = {{20}, {21}, {0}, {0}, {10}, {11}, {10}, {11}, {0}, {0}, {0}, {0}};
  EXPECT_EQ(y, want);
}

// E 2, H 128, I 64. Every element of expert e's w1 rows is 0 but the first of each row.
struct Grouped {
  static constexpr int64_t kE = 2, kH = 128, kI = 64;
  std::vector<uint8_t> w1 = std::vector<uint8_t>(kE * 2 * kI * kH / 2);
  std::vector<uint8_t> w1_sf = std::vector<uint8_t>(kE * 128 * 8, 0x38);
  std::vector<uint8_t> w2 = std::vector<uint8_t>(kE * kH * kI / 2);
  std::vector<uint8_t> w2_sf = std::vector<uint8_t>(kE * 128 * 4, 0x38);
  std::vector<float> alpha1 = {1.0F, 0.5F}, alpha2 = {1.0F, 4.0F};
  std::vector<Bf16> x = std::vector<Bf16>(kH);
  Ints map = Ints(2, -7);
  std::vector<Bf16> y = std::vector<Bf16>(16 * kH, Bf16{0xFFFF});

  void run(const Ints& ids) {
    grouped_moe({x.data(), ids.data(), w1.data(), w1_sf.data(), alpha1.data(), w2.data(),
                 w2_sf.data(), alpha2.data(), 1, 2, kE, kH, kI, Precision::kFast, y.data(),
                 map.data()});
  }
};

TEST(GroupedMoe, AlphasMultiplyTheAccumulatorsAndRowsStandInPermutedOrder) {
  Grouped g;
  g.x[0] = {0x3F80};
  // Expert 1, h column 5: up 4, gate 3, both times 0.5; a scale of 2 for up's first block (row 5: line 5 of the atom).
  g.w1[(2 * g.kI + 5) * g.kH / 2] = 6;
  g.w1[(2 * g.kI + 64 + 5) * g.kH / 2] = 5;
  g.w1_sf[128 * 8 + 5 * 16] = 0x40;
  g.w2[(g.kH + 9) * g.kI / 2 + 2] = 0x30;  // channel 9 of expert 1: element 5 is 1.5
  g.run({1, 7});
  EXPECT_EQ(g.map, (Ints{0, -1}));
  const double h = formats::bf16_to_f32(formats::bf16_from_f64(4 * (1.5 / (1 + std::exp(-1.5)))));
  EXPECT_EQ(g.y[9], formats::bf16_from_f64(4 * 1.5 * h)) << "h is rounded, which shows here";
  EXPECT_EQ(g.y[8].bits, 0);
  for (size_t i = g.kH; i < g.y.size(); ++i) ASSERT_EQ(g.y[i].bits, 0xFFFF) << "no slot here";
}

TEST(GroupedMoe, NanScalesSpreadToTheRowsThatReadThem) {
  Grouped g;
  g.w2_sf[128 * 4 + 9 * 16] = 0x7F;
  g.run({1, 0});
  EXPECT_EQ(g.map, (Ints{8, 0}));
  EXPECT_EQ(g.y[8 * g.kH + 9].bits, 0x7FC0);
  EXPECT_EQ(g.y[8 * g.kH + 10].bits, 0);
  EXPECT_EQ(g.y[9].bits, 0);
}

}  // namespace
}  // namespace octet::reference
