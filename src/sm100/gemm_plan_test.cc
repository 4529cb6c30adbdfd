// SPDX-License-Identifier: Apache-2.0
#include "sm100/gemm_plan.h"

#include <gtest/gtest.h>
#include <set>
#include <string>
#include <utility>

#include "layouts/prepared.h"
#include "sm100/order.h"

namespace octet::sm100 {
namespace {

constexpr int64_t kHidden = 5120, kIntermediate = 576, kPadded = 640;

TEST(Sm100GemmPlan, ReadsW2sPaddingAndNotW13sPaddingBlock) {
  const GemmPlan one = gemm1_plan(kHidden, kIntermediate), two = gemm2_plan(kHidden, kPadded);
  EXPECT_EQ(one.blocks, 9);
  EXPECT_EQ(two.blocks, 40);
  EXPECT_EQ(one.expert_bytes + two.expert_bytes, 4'874'240);
}

TEST(Sm100GemmPlan, Keeps90KilobytesOfWeightsOnTheirWay) {
  const GemmPlan one = gemm1_plan(kHidden, kIntermediate), two = gemm2_plan(kHidden, kPadded);
  EXPECT_EQ(one.stages, 6);
  EXPECT_EQ(two.stages, 12);
  EXPECT_GE(one.bytes_in_flight, 90 * 1024);
  EXPECT_GE(two.bytes_in_flight, 90 * 1024);
}

TEST(Sm100GemmPlan, FitsIntoSharedMemoryWithFewerStagesWhereXsScalesAreMany) {
  int most_stages = Gemm1Traits::kMostStages;
  for (int64_t hidden = 128; hidden < 300'000; hidden += 128) {
    const GemmPlan p = gemm1_plan(hidden, kIntermediate);
    EXPECT_LE(p.stages, most_stages) << hidden;
    EXPECT_NE(p.stages, 1) << hidden;
    if (p.stages > 0) {
      EXPECT_LE(p.dynamic_bytes, kMostSharedBytes) << hidden;
      EXPECT_EQ(p.dynamic_bytes, p.stages * StageLayout<Gemm1Traits>::kBytes + kControlBytes +
                                     hidden / 128 * 128 + 384);
    }
    most_stages = p.stages;
  }
  EXPECT_EQ(most_stages, 0) << "no H is too long";
  EXPECT_LE(gemm2_plan(kHidden, kPadded).dynamic_bytes, kMostSharedBytes);
}

// Each byte of a stage belongs to one thing.
template <class Traits>
void expect_disjoint() {
  using Layout = StageLayout<Traits>;
  std::set<int> bytes;
  const auto take = [&](int at, int count) {
    for (int i = at; i < at + count; ++i) EXPECT_TRUE(bytes.insert(i).second) << i;
  };
  for (int c = 0; c < Traits::kChunks; ++c) {
    take(Layout::weights_at(c), 128 * 128);
    take(Layout::tokens_at(c), 8 * 128);
    take(Layout::weight_scales_at(c), 512);
    if (Traits::kScalesInStage) take(Layout::token_scales_at(c), 512);
    EXPECT_EQ(Layout::weights_at(c) % 1024, 0);
    EXPECT_EQ(Layout::tokens_at(c) % 1024, 0);
    EXPECT_EQ(Layout::weight_scales_at(c) % 16, 0);
  }
  EXPECT_EQ(static_cast<int>(bytes.size()), Layout::kBytes);
  EXPECT_EQ(*bytes.rbegin(), Layout::kBytes - 1);
}
TEST(Sm100StageLayout, HasAPlaceForEachByte) {
  expect_disjoint<Gemm1Traits>();
  expect_disjoint<Gemm2Traits>();
}

template <class Traits>
void expect_columns_disjoint() {
  std::set<uint32_t> columns;
  for (uint32_t i = 0; i < kSumStages * kSumColumns; ++i) columns.insert(i);
  for (int s = 0; s < Traits::kMostStages; ++s)
    for (int c = 0; c < Traits::kChunks; ++c)
      for (uint32_t i = 0; i < 2 * kScaleColumns; ++i)
        EXPECT_TRUE(columns.insert(scale_columns<Traits>(s, c) + i).second) << s << ' ' << c;
  EXPECT_LT(*columns.rbegin(), kTensorColumns);
}
TEST(Sm100TensorMemory, HasColumnsOfItsOwnForEachChunkOfEachStage) {
  expect_columns_disjoint<Gemm1Traits>();
  expect_columns_disjoint<Gemm2Traits>();
}

TEST(Sm100Sums, AreTakenInTurnAndTheirParitiesEverySecondTime) {
  for (int turn = 0; turn < 8; ++turn) {
    EXPECT_EQ(sums_of(turn), turn % 2);
    EXPECT_EQ(sums_parity(turn), static_cast<uint32_t>(turn / 2 % 2));
  }
}

// Where the prepared order puts the rows that a lane's sums are of.
TEST(Sm100SumPlace, HasUpAndGateOfTwoColumnsOfHInALane) {
  std::set<std::pair<int, int>> seen;
  for (int quarter = 0; quarter < 4; ++quarter)
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 8; ++i) {
        const SumPlace at = sum_place(quarter, lane, i);
        EXPECT_TRUE(seen.emplace(at.stored_row, at.column).second);
        const layouts::W13Row row = layouts::w13_logical_row(at.stored_row);
        EXPECT_EQ(row.column, hidden_column(quarter, lane) + i / 4);
        EXPECT_EQ(row.is_gate, i / 2 % 2 == 1);
        EXPECT_EQ(at.column, lane % 4 * 2 + i % 2);
      }
  EXPECT_EQ(seen.size(), 128U * 8);
}
TEST(Sm100SumPlace, HasFourNeighbouringColumnsOfARowInALane) {
  for (int quarter = 0; quarter < 4; ++quarter)
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 8; ++i)
        EXPECT_EQ(layouts::unshuffled_row(sum_place(quarter, lane, i).stored_row),
                  row_column(quarter, lane) + i / 2);
}

}  // namespace
}  // namespace octet::sm100
