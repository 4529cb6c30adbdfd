// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <vector>

#include "reference/reference.h"

namespace octet::reference {
namespace {

using Floats = std::vector<float>;
using Ids = std::vector<int32_t>;
constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

struct Routing {
  Ids ids;
  Floats weights;
};

Routing run(TopkArgs args, int64_t tokens, const Floats& logits) {
  const auto slots = static_cast<size_t>(tokens * args.router.top_k);
  Routing r{Ids(slots, -7), Floats(slots, kNan)};
  args.logits = logits.data();
  args.tokens = tokens;
  args.experts = static_cast<int64_t>(logits.size()) / tokens;
  args.topk_ids = r.ids.data();
  args.topk_weights = r.weights.data();
  topk(args);
  return r;
}

Routing dsv4(const Floats& logits, const Floats& bias, float scale = 1.0F, int64_t k = 6) {
  TopkArgs args{};
  args.router = {.kind = RouterKind::kDsv4, .top_k = k, .scale = scale};
  args.bias = bias.data();
  return run(args, 1, logits);
}
Routing dsv4(const Floats& logits) { return dsv4(logits, Floats(logits.size(), 0.0F)); }

const Ids kFirstSix = {0, 1, 2, 3, 4, 5};

TEST(TopkDsv4, EqualLogitsChooseTheLowestIdsWithEqualWeights) {
  const Routing r = dsv4(Floats(32, 0.5F), Floats(32, 0.0F), 1.5F);
  EXPECT_EQ(r.ids, kFirstSix);
  for (const float w : r.weights) EXPECT_NEAR(w, 0.25F, 1e-7);
}

TEST(TopkDsv4, AllNanChoosesTheLowestIdsAndNanWeights) {
  const Routing r = dsv4(Floats(32, kNan));
  EXPECT_EQ(r.ids, kFirstSix);
  for (const float w : r.weights) EXPECT_TRUE(std::isnan(w));
}

TEST(TopkDsv4, OneNanIsNotChosenWhileOthersRankHigher) {
  Floats logits(32, 0.0F);
  logits[2] = kNan;
  EXPECT_EQ(dsv4(logits).ids, (Ids{0, 1, 3, 4, 5, 6}));
  // With six experts it comes last; its weight is NaN, the others are divided by 1.
  const Routing r = dsv4({0, 0, kNan, 0, 0, 0});
  EXPECT_EQ(r.ids, (Ids{0, 1, 3, 4, 5, 2}));
  EXPECT_NEAR(r.weights[0], std::sqrt(std::log(2.0)), 1e-7);
  EXPECT_TRUE(std::isnan(r.weights[5]));
}

TEST(TopkDsv4, InfiniteLogitTakesNanAndTheOthersZero) {
  Floats logits(32, 1.0F);
  logits[9] = kInf;
  const Routing r = dsv4(logits);
  EXPECT_EQ(r.ids, (Ids{9, 0, 1, 2, 3, 4}));
  EXPECT_TRUE(std::isnan(r.weights[0]));
  for (size_t j = 1; j < 6; ++j) EXPECT_EQ(r.weights[j], 0.0F);
}

TEST(TopkDsv4, AllScoresZeroGiveWeightsZero) {
  // Below about -16.64 the rounded sum is 1 and its log exactly 0; log1p would be positive.
  for (const float logit : {-kInf, -17.0F}) {
    const Routing r = dsv4(Floats(8, logit));
    EXPECT_EQ(r.ids, kFirstSix);
    EXPECT_EQ(r.weights, Floats(6, 0.0F)) << logit;
  }
  EXPECT_GT(dsv4({-16.0F}, {0.0F}, 1.0F, 1).weights[0], 0.0F);
}

TEST(TopkDsv4, BiasSelectsButDoesNotWeigh) {
  Floats bias(8, 0.0F);
  bias[7] = 10;
  const Routing r = dsv4(Floats(8, 0.0F), bias);
  EXPECT_EQ(r.ids, (Ids{7, 0, 1, 2, 3, 4}));
  for (const float w : r.weights) EXPECT_NEAR(w, 1.0 / 6, 1e-7);
}

TEST(TopkDsv4, IdsNeverRepeatWhenKeysAreMinusInfinity) {
  Floats bias(8, -kInf);
  bias[5] = 0;
  EXPECT_EQ(dsv4(Floats(8, 1.0F), bias).ids, (Ids{5, 0, 1, 2, 3, 4}));
}

TEST(TopkDsv4, AboveTwentyTheScoreIsTheRootOfTheLogit) {
  const Routing r = dsv4({36.0F, 64.0F}, {0, 0}, 1.0F, 2);
  EXPECT_EQ(r.ids, (Ids{1, 0}));
  EXPECT_FLOAT_EQ(r.weights[0], 8.0F / 14);
}

TEST(TopkDsv4, ImageRowsReplaceTheBias) {
  const Floats bias = {5, 0, 0, 0};
  const Floats bias_vl = {0, 0, 0, 5};
  const std::vector<int64_t> tokens = {99, 100, 104, 105, int64_t{100} << 32};
  TopkArgs args{};
  args.router = {.kind = RouterKind::kDsv4, .top_k = 1, .image_sentinel_lo = 100};
  args.bias = bias.data();
  args.bias_vl = bias_vl.data();
  args.input_ids = {tokens.data(), true};
  EXPECT_EQ(run(args, 5, Floats(20, 0.0F)).ids, (Ids{0, 3, 3, 0, 0}));
  args.router.image_sentinel_lo = 0;
  EXPECT_EQ(run(args, 5, Floats(20, 0.0F)).ids, (Ids{0, 0, 0, 0, 0}));
}

TEST(TopkHash, IdsComeFromTheTableAndWeightsAreDsv4s) {
  const Ids table = {0, 1, 3, 2};  // [2, 2]
  const Ids tokens = {1, 0};
  TopkArgs args{};
  args.router = {.kind = RouterKind::kHash, .top_k = 2, .scale = 2.0F};
  args.input_ids = {tokens.data(), false};
  args.table = table.data();
  args.vocab = 2;
  const Routing r = run(args, 2, {36, 64, 36, 36, 36, 64, 36, 36});
  EXPECT_EQ(r.ids, (Ids{3, 2, 0, 1}));
  EXPECT_FLOAT_EQ(r.weights[0], 1.0F);
  EXPECT_FLOAT_EQ(r.weights[3], 16.0F / 14);
}

TEST(TopkHash, ImageRowsGoByBiasVl) {
  const Ids table = {0, 1, 3, 2};  // [2, 2]: no row for an image
  const Ids tokens = {1, 9};
  const Floats bias_vl = {0, 5, 9, 0};
  TopkArgs args{};
  args.router = {.kind = RouterKind::kHash, .top_k = 2, .scale = 2.0F, .image_sentinel_lo = 8};
  args.bias_vl = bias_vl.data();
  args.input_ids = {tokens.data(), false};
  args.table = table.data();
  args.vocab = 2;
  const Routing r = run(args, 2, {36, 64, 36, 36, 36, 64, 36, 36});
  EXPECT_EQ(r.ids, (Ids{3, 2, 2, 1}));
  EXPECT_FLOAT_EQ(r.weights[2], 12.0F / 14);
}

TEST(TopkDeepseekV3, OnlyTheBestGroupsAreChosenFrom) {
  // Groups of two, ranked by their two best: {4, 4}, {6, -9}, {1, 1}, {3, 3}: the largest single logit is out.
  const Floats logits = {4, 4, 6, -9, 1, 1, 3, 3};
  const Floats bias(8, 0.0F);
  TopkArgs args{};
  args.router = {
      .kind = RouterKind::kDeepseekV3, .top_k = 3, .scale = 2.5F, .groups = 4, .groups_kept = 2};
  args.bias = bias.data();
  const Routing r = run(args, 1, logits);
  EXPECT_EQ(r.ids, (Ids{0, 1, 6}));
  const double s4 = 1 / (1 + std::exp(-4.0));
  const double s3 = 1 / (1 + std::exp(-3.0));
  EXPECT_FLOAT_EQ(r.weights[2], static_cast<float>(s3 / (2 * s4 + s3) * 2.5));
}

TEST(TopkSoftmax, WeighsOverTheChosen) {
  TopkArgs args{};
  args.router = {.kind = RouterKind::kSoftmax, .top_k = 2};
  const Routing r = run(args, 1, {0, std::log(3.0F), -1, 0});
  EXPECT_EQ(r.ids, (Ids{1, 0}));
  EXPECT_FLOAT_EQ(r.weights[0], 0.75F);
  EXPECT_EQ(run(args, 1, {kNan, -5, kNan, 1}).ids, (Ids{3, 1})) << "NaN ranks last";
}

TEST(TopkFlint, LogitsAndWeightsAreBf16) {
  TopkArgs args{};
  args.router = {.kind = RouterKind::kFlint, .top_k = 2};
  // 1 + 2^-9 is 1 in BF16: a tie, which the lower id wins.
  const Routing r = run(args, 1, {0, 1, 1.001953125F});
  EXPECT_EQ(r.ids, (Ids{1, 2}));
  EXPECT_EQ(r.weights, (Floats{0.5F, 0.5F}));
  EXPECT_EQ(run(args, 1, {0, 4}).weights[0], 0x1.54p-1F) << "0.6626... in eight bits";
}

}  // namespace
}  // namespace octet::reference
