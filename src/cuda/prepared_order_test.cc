// SPDX-License-Identifier: Apache-2.0
#include "cuda/prepared_order.h"

#include <gtest/gtest.h>
#include <set>
#include <utility>

namespace octet::cuda {
namespace {

TEST(PreparedItems, AreEachOneCtasOnAnyGrid) {
  for (const int tiles : {0, 1, 22, 64}) {
    for (const int blocks : {1, 9, 40}) {
      for (const int ctas : {1, 7, 148, 160, 5000}) {
        std::set<std::pair<int, int>> seen;
        for (int cta = 0; cta < ctas; ++cta) {
          int turn = 0;
          for (Items i(cta, ctas, tiles, blocks); i.next(); ++turn) {
            EXPECT_EQ(i.turn, turn);
            EXPECT_LT(i.block, blocks);
            EXPECT_TRUE(seen.emplace(i.tile, i.block).second) << i.tile << ' ' << i.block;
          }
        }
        EXPECT_EQ(static_cast<int>(seen.size()), tiles * blocks) << ctas << " CTAs";
        EXPECT_EQ(seen.empty() ? -1 : seen.rbegin()->first, tiles - 1);
      }
    }
  }
}

TEST(PreparedRingPlace, TurnsItsParityWithEachRound) {
  RingPlace p;
  for (int n = 0; n < 30; ++n, p.next(6)) {
    EXPECT_EQ(p.stage, n % 6);
    EXPECT_EQ(p.parity, static_cast<uint32_t>(n / 6 % 2));
  }
}

TEST(PreparedGemmPlan, TakesAsManyStagesAsFitAndNoneWhereOnlyOneDoes) {
  const auto stages = [](int fixed) {
    return gemm_plan(
               1, 1,
               {.stage_chunks = 1, .stage_bytes = 100, .most = 4, .room = 1000, .fixed = fixed})
        .stages;
  };
  EXPECT_EQ(stages(0), 4);
  EXPECT_EQ(stages(600), 4);
  EXPECT_EQ(stages(601), 3);
  EXPECT_EQ(stages(800), 2);
  EXPECT_EQ(stages(801), 0);
  EXPECT_EQ(stages(2000), 0);
}

}  // namespace
}  // namespace octet::cuda
