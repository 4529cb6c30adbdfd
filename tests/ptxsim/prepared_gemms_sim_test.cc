// SPDX-License-Identifier: Apache-2.0
// The GEMM pair of prepared tensors (src/sm100, src/sm120) in the simulator, as nvcc emits it, with its own host code and tensor maps:
// every shape, row count, routing, grid, sum and order of events within semantics.md section 12's bounds, the checker silent.
#include <algorithm>
#include <gtest/gtest.h>
#include <limits>

#include "layouts/prepared.h"
#include "prepared_backend.h"
#include "prepared_run.h"
#include "reference/index.h"
#include "sim_launch.h"

namespace octet::sim {
namespace {

using ptxsim::machine::Arithmetic;
using ptxsim::machine::Settings;

// Shapes of the public cases of gemm1, gemm2 and layer (tests/oracle/make_vectors.py): E, H, I, k.
constexpr PreparedShape kShapes[] = {
    {32, 128, 64, 6}, {32, 128, 80, 8}, {32, 128, 464, 2}, {32, 128, 576, 6},
    {32, 128, 96, 6}, {96, 256, 96, 2}, {64, 256, 128, 3},
};
// V4.1's slice, with experts for the routings alone.
constexpr PreparedShape kSlice = {2, 5120, 576, 2};

constexpr Ids kPatterns[] = {Ids::kRandom,     Ids::kFew,  Ids::kSame, Ids::kMasked,
                             Ids::kDuplicates, Ids::kNone, Ids::kAll};

// A run of a problem: everything that differs from run to run without a change of what is right.
void expect_right(PreparedJudge& judge, const PreparedLayer& layer, const PreparedRows& in,
                  int ctas, const Settings& settings) {
  SCOPED_TRACE(testing::Message() << shown(layer.shape) << ", T " << in.tokens << ", " << ctas
                                  << " CTAs, " << shown(settings) << ", sums "
                                  << (settings.arithmetic == Arithmetic::kExact ? "exact" : "cut"));
  const PreparedResult result = run_pair(layer, in, ctas, settings);
  if (!result.rows.empty()) judge.judge(result);
}

constexpr Arithmetic sums_of(size_t i) {
  return i % 2 == 0 ? Arithmetic::kExact : Arithmetic::kTruncated;
}

// Every shape with every row count, in each time with each of so many seeds. The routing goes round from problem to problem, `patterns` a
// problem, the grid and the sums from run to run.
void expect_right_on_public_shapes(uint64_t seeds, size_t patterns) {
  size_t problem = 0;
  for (const PreparedShape& shape : kShapes) {
    const PreparedLayer exact(shape, Values::kExactSums, 1), any(shape, Values::kAny, 2);
    for (int64_t tokens = 1; tokens <= 8; ++tokens) {
      for (size_t i = 0; i < patterns; ++i, ++problem) {
        const PreparedLayer& layer = problem % 2 == 0 ? exact : any;
        const PreparedRows in(layer, tokens, kPatterns[problem % std::size(kPatterns)],
                              static_cast<unsigned>(problem));
        PreparedJudge judge(layer, in);
        const int grids[] = {3, 1, 7, static_cast<int>(in.tiles() * 9 + 1)};
        size_t run = problem;
        for (Settings settings : all_times(seeds)) {
          settings.arithmetic = sums_of(run / 2);
          expect_right(judge, layer, in, grids[run++ % std::size(grids)], settings);
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

void expect_right_at_v41s_slice(std::initializer_list<int64_t> rows, uint64_t seeds,
                                std::initializer_list<int> grids) {
  const PreparedLayer exact(kSlice, Values::kExactSums, 3), any(kSlice, Values::kAny, 4);
  size_t run = 0;
  for (const int64_t tokens : rows) {
    const PreparedLayer& layer = tokens % 3 == 0 ? exact : any;
    const PreparedRows in(layer, tokens, tokens % 2 == 1 ? Ids::kSame : Ids::kMasked,
                          static_cast<unsigned>(tokens));
    PreparedJudge judge(layer, in);
    for (const int ctas : grids) {
      for (Settings settings : all_times(seeds)) {
        settings.arithmetic = sums_of(run++);
        expect_right(judge, layer, in, ctas, settings);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(PreparedGemms, AreRightOnThePublicShapes) { expect_right_on_public_shapes(8, 1); }
TEST(PreparedGemms, AreRightAtV41sSlice) { expect_right_at_v41s_slice({1, 6, 8}, 8, {5}); }

// Wider, for the night.
TEST(PreparedGemmsNightly, AreRightOnThePublicShapes) {
  expect_right_on_public_shapes(16, std::size(kPatterns));
}
TEST(PreparedGemmsNightly, AreRightAtV41sSlice) {
  expect_right_at_v41s_slice({1, 2, 3, 4, 5, 6, 7, 8}, 16, {1, prepared_backend().num_sms});
}

// Small, and enough items a CTA that each ring comes round and each accumulator is used again.
TEST(PreparedGemms, AreRightWhereEveryRingWraps) {
  const PreparedShape shape = {4, 512, 96, 2};
  const cuda::PreparedGemms& gemms = prepared_backend().gemms;
  const PreparedLayer layer(shape, Values::kExactSums, 5);
  const PreparedRows in(layer, 3, Ids::kAll, 6);
  ASSERT_EQ(in.tiles(), 4);
  const cuda::GemmPlan one = gemms.gemm1_plan(shape.hidden, shape.intermediate),
                       two = gemms.gemm2_plan(shape.hidden, shape.padded());
  const int stage_chunks = static_cast<int>(prepared_backend().gemm1_stage_chunks);
  ASSERT_GT(4 * one.blocks * one.chunks / stage_chunks, one.stages);
  ASSERT_GT(4 * two.blocks * two.chunks, two.stages);
  PreparedJudge judge(layer, in);
  for (const Settings& settings : all_times(1)) {
    expect_right(judge, layer, in, 1, settings);
    if (HasFailure()) return;
  }
}

// Scale codes 0 (2^-127) and 255 (NaN), large ones that small ones of x meet, NaN codes; limits of 0, 3e38 and infinity.
PreparedLayer odd_layer(const PreparedShape& shape) {
  PreparedLayer layer(shape, Values::kAny, 11);
  std::mt19937 rng(12);
  for (uint8_t& code : layer.w13_scale) {
    if (rng() % 512 == 0) code = rng() % 2 == 0 ? 0 : 255;
  }
  for (uint8_t& code : layer.w2_scale) {
    if (rng() % 128 == 0) code = rng() % 2 == 0 ? 0 : 255;
  }
  for (int64_t row = 0; row < shape.experts * 2 * shape.padded(); ++row)
    layer.w13_scale[static_cast<size_t>(
        row / 128 * 128 * (shape.hidden / 32) +
        reference::scale_index(ScaleLayout::k128x4, shape.hidden / 32, row % 128, 3))] =
        static_cast<uint8_t>(220 + row % 3);
  layer.clamp = {0.0F, 3e38F, std::numeric_limits<float>::infinity(), 10.0F};
  return layer;
}

TEST(PreparedGemms, TakeOddScalesCodesAndLimits) {
  const PreparedShape shape = {4, 256, 96, 2};
  const PreparedLayer layer = odd_layer(shape);
  PreparedRows in(layer, 7, Ids::kAll, 13);
  const int64_t blocks = shape.hidden / 32;
  for (int64_t t = 0; t < in.tokens; ++t) in.x_scale[static_cast<size_t>(t * blocks + 3)] = 28;
  in.x_quant[static_cast<size_t>(1 * shape.hidden + 77)] = 0x7F;
  in.x_quant[static_cast<size_t>(2 * shape.hidden + 5)] = 0xFF;
  in.x_scale[static_cast<size_t>(3 * blocks + 1)] = 255;
  in.x_scale[static_cast<size_t>(4 * blocks + 2)] = 0;
  PreparedJudge judge(layer, in);
  int ctas = 0;
  for (const Settings& settings : all_times(2)) {
    expect_right(judge, layer, in, ++ctas, settings);
    if (HasFailure()) return;
  }
}

// Blocks of h whose amax is 448 and a millionth more or less: up 7 and 2^-17 times x, gate 64, so that the sigmoid is 1.
TEST(PreparedGemms, TakeTheScaleOfABlockAtItsEdge) {
  const PreparedShape shape = {1, 128, 64, 1};
  PreparedLayer layer(shape, Values::kExactSums, 14);
  std::fill(layer.w13.begin(), layer.w13.end(), uint8_t{0});
  layer.clamp = {100.0F};
  const auto set = [&](layouts::W13Row row, int64_t block, int scale, uint8_t codes) {
    const int64_t n = layouts::w13_stored_row(row);
    layer.w13[static_cast<size_t>(n * 64 + 16 * block)] = codes;
    layer.w13_scale[static_cast<size_t>(reference::scale_index(ScaleLayout::k128x4, 4, n, block))] =
        static_cast<uint8_t>(scale);
  };
  for (const int64_t column : {5, 40}) {
    set({column, false}, 0, 127, 0x27);       // 6 and 1
    set({column, false}, 1, 127 - 17, 0x02);  // 1
    set({column, true}, 0, 127 + 4, 0x06);    // 4
  }
  constexpr uint8_t kOne = 0x38, kMinusOne = 0xB8;
  std::vector<uint8_t> x(size_t{3} * 128, kOne);
  x[128 + 32] = kMinusOne;
  x[256 + 32] = 0;
  const PreparedRows in(shape, x, std::vector<uint8_t>(12, 127), {0, 0, 0});
  PreparedJudge judge(layer, in);
  for (const Settings& settings : all_times(1)) {
    const PreparedResult result = run_pair(layer, in, 1, settings);
    ASSERT_FALSE(result.rows.empty());
    judge.judge(result);
    EXPECT_EQ(result.h_scales[0], 128);   // 448.0005
    EXPECT_EQ(result.h_scales[16], 127);  // 447.9995
    EXPECT_EQ(result.h_scales[32], 127);  // 448
  }
}

// Same bytes on any grid and in any order; two sums may differ in theirs.
TEST(PreparedGemms, GiveTheSameBytesOnAnyGridAndInAnyOrder) {
  const PreparedShape shape = {5, 384, 160, 3};
  const PreparedLayer layer(shape, Values::kAny, 7);
  const PreparedRows in(layer, 7, Ids::kRandom, 8);
  PreparedJudge judge(layer, in);
  const auto runs = all_times(2);
  const PreparedResult first = run_pair(layer, in, 1, runs.front());
  ASSERT_FALSE(first.rows.empty());
  judge.judge(first);
  int ctas = 1;
  for (const Settings& settings : runs) {
    ctas = ctas * 2 + 1;
    EXPECT_TRUE(run_pair(layer, in, ctas, settings) == first) << ctas << ", " << shown(settings);
    if (HasFailure()) return;
  }
}

// A row alone has the bytes that it has among others, wherever it stands.
TEST(PreparedGemms, GiveARowTheSameBytesAmongOthers) {
  const PreparedShape shape = {4, 256, 96, 2};
  const PreparedLayer layer(shape, Values::kAny, 9);
  const PreparedRows in(layer, 8, Ids::kRandom, 10);
  const Settings settings = all_times(1).front();
  const PreparedResult together = run_pair(layer, in, 3, settings);
  ASSERT_FALSE(together.rows.empty());
  for (int64_t t = 0; t < in.tokens; ++t) {
    const auto part = [&](const auto& all, int64_t width) {
      return std::vector(all.begin() + t * width, all.begin() + (t + 1) * width);
    };
    const PreparedRows row(shape, part(in.x_quant, shape.hidden),
                           part(in.x_scale, shape.hidden / 32), part(in.ids, shape.top_k));
    const PreparedResult alone = run_pair(layer, row, 2, settings);
    ASSERT_FALSE(alone.rows.empty());
    for (int64_t j = 0; j < shape.top_k; ++j) {
      const auto bytes_of = [&](const PreparedResult& r, int32_t at) {
        return std::vector(r.rows.begin() + at * shape.hidden,
                           r.rows.begin() + (at + 1) * shape.hidden);
      };
      EXPECT_EQ(bytes_of(alone, row.permuted[static_cast<size_t>(j)]),
                bytes_of(together, in.permuted[static_cast<size_t>(t * shape.top_k + j)]))
          << "token " << t << ", slot " << j;
    }
  }
}

}  // namespace
}  // namespace octet::sim
