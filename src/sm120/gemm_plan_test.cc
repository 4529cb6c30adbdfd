// SPDX-License-Identifier: Apache-2.0
#include "sm120/gemm_plan.h"

#include <gtest/gtest.h>
#include <set>

#include "sm120/gemm_launch.h"

namespace octet::sm120 {
namespace {

TEST(Sm120GemmPlan, ReadsW2sPaddingAndNotW13sPaddingBlock) {
  const GemmPlan one = gemm1_plan(5120, 576), two = gemm2_plan(5120, 640);
  EXPECT_EQ(one.expert_bytes + two.expert_bytes, 4'874'240);
  EXPECT_EQ(one.stages, 4);
  EXPECT_EQ(two.stages, 9);
  EXPECT_LE(one.dynamic_bytes, kMostSharedBytes);
  EXPECT_LE(two.dynamic_bytes, kMostSharedBytes);
}

TEST(Sm120GemmPlan, RefusesOnlyWhatDoesNotFit) {
  int stages = Gemm1Traits::kMostStages;
  for (int64_t hidden = 128; hidden < 300'000; hidden += 128) {
    const GemmPlan p = gemm1_plan(hidden, 576);
    EXPECT_LE(p.stages, stages);
    EXPECT_LE(p.stages == 0 ? 0 : p.dynamic_bytes, kMostSharedBytes) << hidden;
    stages = p.stages;
  }
  EXPECT_EQ(stages, 0);
}

// Each byte of a stage belongs to one thing at most.
template <class Traits>
void expect_disjoint() {
  using Layout = StageLayout<Traits>;
  std::set<int> bytes;
  const auto take = [&](int at, int count) {
    for (int i = at; i < at + count; ++i) EXPECT_TRUE(bytes.insert(i).second) << i;
  };
  for (int c = 0; c < Traits::kChunks; ++c) {
    take(Layout::weights_at(c), 128 * 64);
    take(Layout::tokens_at(c), 8 * 128);
    take(Layout::weight_scales_at(c), 512);
    if (Traits::kScalesInStage) take(Layout::token_scales_at(c), 128);
    EXPECT_EQ(Layout::weights_at(c) % 1024, 0);
    EXPECT_EQ(Layout::tokens_at(c) % 1024, 0);
  }
  EXPECT_LT(*bytes.rbegin(), Layout::kBytes);
  EXPECT_EQ(Layout::kBytes % 1024, 0);
}
TEST(Sm120StageLayout, HasAPlaceForEachByte) {
  expect_disjoint<Gemm1Traits>();
  expect_disjoint<Gemm2Traits>();
}

struct Map {
  CUtensorMapDataType type;
  uint64_t columns, rows, stride;
  uint32_t box_columns, box_rows;
  CUtensorMapSwizzle swizzle;
} map;

CUresult record_map(CUtensorMap*, CUtensorMapDataType type, cuuint32_t, void*,
                    const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                    const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                    CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  map = {type, sizes[0], sizes[1], strides[0], box[0], box[1], swizzle};
  return CUDA_SUCCESS;
}

// The instruction has no types below a byte on sm_120a, so a map's columns are bytes.
TEST(Sm120Gemms, MapPackedWeightsAsBytes) {
  CUtensorMap to;
  const int data = 0;
  ASSERT_TRUE(gemms().encode_weights(record_map, {"w2", &data, 96 * 5120, 640}, to).ok());
  EXPECT_EQ(map.type, CU_TENSOR_MAP_DATA_TYPE_UINT8);
  EXPECT_EQ(map.columns, 320U);
  EXPECT_EQ(map.rows, 96U * 5120);
  EXPECT_EQ(map.stride, 320U);
  EXPECT_EQ(map.box_columns, 64U);
  EXPECT_EQ(map.box_rows, 128U);
  EXPECT_EQ(map.swizzle, CU_TENSOR_MAP_SWIZZLE_64B);
}

}  // namespace
}  // namespace octet::sm120
