// SPDX-License-Identifier: Apache-2.0
#include "routing/topk.h"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <vector>

#include "formats/bf16.h"

namespace octet::routing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Ids = std::vector<int32_t>;

// A call with its own memory; outputs are poisoned before each run.
struct Call {
  int64_t experts;
  std::vector<float> logits;
  RouterSpec router;
  std::vector<float> bias = std::vector<float>(static_cast<size_t>(experts), 0.0F);
  std::vector<float> bias_vl{};
  std::vector<int64_t> input_ids{};
  bool wide_ids = true;
  std::vector<int32_t> table{};

  std::vector<int32_t> narrow{};
  Ids ids{};
  std::vector<float> weights{};

  int64_t tokens() const { return static_cast<int64_t>(logits.size()) / experts; }
  TopkArgs args() {
    narrow.assign(input_ids.begin(), input_ids.end());
    const void* given = wide_ids ? static_cast<const void*>(input_ids.data()) : narrow.data();
    const auto slots = static_cast<size_t>(tokens() * std::max<int64_t>(router.top_k, 0));
    ids.assign(slots, -7);
    weights.assign(slots, std::bit_cast<float>(0xFFFFFFFFU));
    return {.logits = logits.data(),
            .tokens = tokens(),
            .experts = experts,
            .router = router,
            .bias = bias.empty() ? nullptr : bias.data(),
            .bias_vl = bias_vl.empty() ? nullptr : bias_vl.data(),
            .input_ids = {input_ids.empty() ? nullptr : given, wide_ids},
            .table = table.empty() ? nullptr : table.data(),
            .vocab = static_cast<int64_t>(table.size()) / std::max<int64_t>(router.top_k, 1),
            .topk_ids = ids.data(),
            .topk_weights = weights.data()};
  }
  Call& run() {
    const TopkArgs a = args();
    const Status s = check_topk(a);
    EXPECT_TRUE(s.ok()) << s.why;
    topk(a, 0, a.tokens);
    return *this;
  }
};

Call dsv4(std::vector<float> row, int64_t top_k = 6, float scale = 1.0F) {
  const auto experts = static_cast<int64_t>(row.size());
  return {experts, std::move(row), {.top_k = top_k, .scale = scale}};
}
Call other(RouterKind kind, std::vector<float> row, int64_t top_k) {
  Call c = dsv4(std::move(row), top_k);
  c.router.kind = kind;
  return c;
}

std::vector<float> normal(int64_t count, unsigned seed, float sigma = 2.0F) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> draw(0.0F, sigma);
  std::vector<float> v(static_cast<size_t>(count));
  for (float& x : v) x = draw(rng);
  return v;
}

uint32_t bits(float v) { return std::bit_cast<uint32_t>(v); }
std::vector<uint32_t> bits(const std::vector<float>& v) {
  std::vector<uint32_t> out;
  for (const float x : v) out.push_back(bits(x));
  return out;
}

// ---- dsv4: selection

TEST(Dsv4, GivesTheLowestIdsOfEqualLogits) {
  EXPECT_EQ(dsv4(std::vector<float>(384, 0.25F)).run().ids, (Ids{0, 1, 2, 3, 4, 5}));
  Call c = dsv4(std::vector<float>(384, 0.25F));
  c.logits[300] = c.logits[7] = 0.5F;
  EXPECT_EQ(c.run().ids, (Ids{7, 300, 0, 1, 2, 3}));
}

TEST(Dsv4, SelectsWithTheBiasAndWeighsWithout) {
  Call c = dsv4({25, 36, 49, 64}, 2);  // w = 5, 6, 7, 8
  c.bias = {10, 0, 3, 0};              // c = 15, 6, 10, 8
  c.run();
  EXPECT_EQ(c.ids, (Ids{0, 2}));
  EXPECT_EQ(c.weights, (std::vector<float>{5 * (1.0F / 12), 7 * (1.0F / 12)}));
}

TEST(Dsv4, RanksNanBelowNumbersAndAboveInfinity) {
  Call one = dsv4(normal(64, 1));
  one.logits[5] = kNan;
  one.run();
  EXPECT_EQ(std::count(one.ids.begin(), one.ids.end(), 5), 0);

  Call few = dsv4({kNan, 3, kNan, 1, 2, kNan, kNan}, 6);
  few.bias[2] = -kInf;  // NaN stays NaN under any bias
  few.run();
  EXPECT_EQ(few.ids, (Ids{1, 4, 3, 0, 2, 5}));
  for (int j = 0; j < 3; ++j)
    EXPECT_FALSE(std::isnan(few.weights[static_cast<size_t>(j)]));  // divisor 1
  for (int j = 3; j < 6; ++j) EXPECT_TRUE(std::isnan(few.weights[static_cast<size_t>(j)]));

  Call ranks = dsv4({0, kNan, 0, 0}, 4);
  ranks.bias = {-kInf, 0, -2e30F, 0};
  EXPECT_EQ(ranks.run().ids, (Ids{3, 1, 2, 0}));
}

TEST(Dsv4, AllNanGivesTheLowestIdsAndNanWeights) {
  Call c = dsv4(std::vector<float>(384, kNan)).run();
  EXPECT_EQ(c.ids, (Ids{0, 1, 2, 3, 4, 5}));
  for (const float w : c.weights) EXPECT_TRUE(std::isnan(w));
}

TEST(Dsv4, NeverRepeatsAnIdWhenOnlyMinusInfinityIsLeft) {
  Call c = dsv4(std::vector<float>(16, 1.0F), 6);
  c.bias.assign(16, -kInf);
  c.bias[9] = 0;
  c.bias[2] = 1;
  EXPECT_EQ(c.run().ids, (Ids{2, 9, 0, 1, 3, 4}));
}

TEST(Dsv4, AnInfiniteLogitHasNanWeightAndTheOthersZero) {
  Call c = dsv4({1, kInf, 2}, 3).run();
  EXPECT_EQ(c.ids, (Ids{1, 2, 0}));
  EXPECT_TRUE(std::isnan(c.weights[0]));
  EXPECT_EQ(bits(c.weights[1]), 0U);
  EXPECT_EQ(bits(c.weights[2]), 0U);
}

TEST(Dsv4, WeightsAreZeroWhenAllScoresAre) {
  Call c = dsv4({-kInf, -40, -17, -kInf}, 3).run();
  EXPECT_EQ(c.ids, (Ids{0, 1, 2}));
  EXPECT_EQ(bits(c.weights), std::vector<uint32_t>(3, 0));
}

// ---- dsv4: arithmetic

// Below about -16.64 the rounded sum is 1; at -12 it is a multiple of 2^-23, which log1p would not be.
TEST(Dsv4, TakesTheLogOfARoundedSum) {
  Call c = dsv4({-16.7F, -12.0F}, 2).run();
  EXPECT_EQ(c.ids, (Ids{1, 0}));
  EXPECT_EQ(bits(c.weights[1]), 0U);
  // Two equal sums: exp(-12) and exp(-12.01) both round to 1 + 51 or 52 units of 2^-23.
  Call tie = dsv4({-15.93F, -15.92F}, 2).run();
  EXPECT_EQ(tie.ids, (Ids{0, 1}));
  EXPECT_EQ(bits(tie.weights[0]), bits(tie.weights[1]));
}

// Each step by hand, from double: what the CPU's "correctly rounded" means.
float score(float x) {
  if (x > 20.0F) return std::sqrt(x);
  const auto e = static_cast<float>(std::exp2(static_cast<double>(x * 1.44269504F)));
  const auto l = static_cast<float>(std::log(static_cast<double>(1.0F + e)));
  return static_cast<float>(std::sqrt(static_cast<double>(l)));
}

// exp(100) is beyond binary32.
TEST(Dsv4, TakesTheLogitItselfAboveTwenty) {
  Call c = dsv4({100, 1, 400}, 3).run();
  const float sum = (20.0F + score(1)) + 10.0F;
  EXPECT_EQ(c.ids, (Ids{2, 0, 1}));
  EXPECT_EQ(bits(c.weights), bits({20 * (1 / sum), 10 * (1 / sum), score(1) * (1 / sum)}));
}

TEST(Dsv4, EveryStepIsRoundedOnce) {
  const Call c = dsv4(normal(256, 3, 4.0F), 8, 1.5F).run();
  float w[8];
  for (size_t j = 0; j < 8; ++j) w[j] = score(c.logits[static_cast<size_t>(c.ids[j])]);
  const float sum = ((w[0] + w[4]) + (w[2] + w[6])) + ((w[1] + w[5]) + (w[3] + w[7]));
  for (size_t j = 0; j < 8; ++j) EXPECT_EQ(bits(c.weights[j]), bits(w[j] * (1.5F / sum))) << j;
}

// Weights of very different size, so that the order of the sum shows.
TEST(Dsv4, SumsAsAnEightLaneButterfly) {
  int told_apart = 0;
  for (int64_t k = 3; k <= 8; ++k) {
    for (unsigned seed = 0; seed < 50; ++seed) {
      std::vector<float> row = normal(8, seed, 1.0F);
      for (float& x : row) x = 21.0F + std::exp(2.0F * x);
      const Call c = dsv4(row, k, 2.5F).run();
      float w[8] = {};
      float ascending = 0;
      for (int64_t j = 0; j < k; ++j) {
        w[j] = std::sqrt(row[static_cast<size_t>(c.ids[static_cast<size_t>(j)])]);
        ascending += w[j];
      }
      const float sum = ((w[0] + w[4]) + (w[2] + w[6])) + ((w[1] + w[5]) + (w[3] + w[7]));
      told_apart += sum != ascending ? 1 : 0;
      for (int64_t j = 0; j < k; ++j)
        ASSERT_EQ(bits(c.weights[static_cast<size_t>(j)]), bits(w[j] * (2.5F / sum)))
            << k << " " << seed;
    }
  }
  EXPECT_GT(told_apart, 50);
}

// ---- dsv4: image rows

TEST(Dsv4, ReplacesTheBiasOfImageRows) {
  constexpr int64_t kLo = 129257;
  for (const bool wide : {false, true}) {
    Call c{4, std::vector<float>(8 * 4, 30.0F), {.top_k = 1, .image_sentinel_lo = kLo}};
    c.bias = {0, 0, 9, 0};
    c.bias_vl = {0, 5, 0, 0};  // added to the bias it would lose
    c.input_ids = {kLo - 1, kLo, kLo + 1, kLo + 4, kLo + 5, 0, -1, 7};
    c.wide_ids = wide;
    EXPECT_EQ(c.run().ids, (Ids{2, 1, 1, 1, 2, 2, 2, 2}));
    for (const int64_t off : {int64_t{0}, int64_t{-2}}) {  // no row is an image
      c.router.image_sentinel_lo = off;
      c.input_ids = {0, 1, -2, -1, 2, 3, 4, 129257};
      EXPECT_EQ(c.run().ids, Ids(8, 2));
    }
  }
}

TEST(Dsv4, ComparesImageIdsInSixtyFourBits) {
  Call c{4, std::vector<float>(3 * 4, 30.0F), {.top_k = 1, .image_sentinel_lo = 100}};
  c.bias = {0, 0, 9, 0};
  c.bias_vl = {0, 5, 0, 0};
  c.input_ids = {(int64_t{1} << 32) + 100, INT64_MIN + 100, INT64_MAX};
  EXPECT_EQ(c.run().ids, Ids(3, 2));
}

// ---- the other routers

TEST(Hash, TakesIdsFromTheTableAndDsv4Weights) {
  Call c{
      4, {25, 36, 49, 64, 64, 49, 36, 25}, {.kind = RouterKind::kHash, .top_k = 2, .scale = 1.5F}};
  c.bias.clear();
  c.table = {3, 1, 0, 2, 1, 1};
  c.input_ids = {1, 2};
  for (const bool wide : {false, true}) {
    c.wide_ids = wide;
    c.run();
    EXPECT_EQ(c.ids, (Ids{0, 2, 1, 1}));
    EXPECT_EQ(c.weights, (std::vector<float>{5 * (1.5F / 12), 7 * (1.5F / 12), 7 * (1.5F / 14),
                                             7 * (1.5F / 14)}));
  }
}

TEST(Hash, RoutesImageRowsByTheirBias) {
  Call c{4,
         {25, 36, 49, 64, 25, 36, 49, 64},
         {.kind = RouterKind::kHash, .top_k = 2, .image_sentinel_lo = 100}};
  c.bias.clear();
  c.bias_vl = {50, 0, 0, 0};
  c.table = {3, 1, 0, 2};
  c.input_ids = {100, 1};
  EXPECT_EQ(c.run().ids, (Ids{0, 3, 0, 2}));
}

TEST(DeepseekV3, KeepsTheBestGroupsByTheirTwoBest) {
  // Groups of 3: sums of the two best biases 10, 12, 11, 12; the largest single one (group 0) loses.
  Call c = other(RouterKind::kDeepseekV3, std::vector<float>(12, 0.0F), 4);
  c.bias = {10, 0, 0, 6, 6, 1, 5, 6, 5, 7, 5, 4};
  c.router.groups = 4;
  c.router.groups_kept = 2;
  EXPECT_EQ(c.run().ids, (Ids{9, 3, 4, 10}));
  c.router.groups_kept = 4;
  EXPECT_EQ(c.run().ids, (Ids{0, 9, 3, 4}));
  EXPECT_EQ(c.weights, std::vector<float>(4, 0.25F));
}

TEST(DeepseekV3, PrefersTheLowestGroupAmongEquals) {
  Call c = other(RouterKind::kDeepseekV3, std::vector<float>(8, 1.0F), 2);
  c.router.groups = 4;
  c.router.groups_kept = 1;
  EXPECT_EQ(c.run().ids, (Ids{0, 1}));
  c.bias[5] = c.bias[7] = 0.25F;
  EXPECT_EQ(c.run().ids, (Ids{5, 4}));
}

TEST(DeepseekV3, WeighsUnbiasedSigmoidsRenormalised) {
  Call c = other(RouterKind::kDeepseekV3, {1, -2, 0.5F, 3}, 2);
  c.router.scale = 2.5F;
  c.bias = {0, 7, 0, 0};
  c.run();
  EXPECT_EQ(c.ids, (Ids{1, 3}));
  const double s1 = 1 / (1 + std::exp(2.0)), s3 = 1 / (1 + std::exp(-3.0));
  EXPECT_FLOAT_EQ(c.weights[0], static_cast<float>(s1 / (s1 + s3) * 2.5));
  EXPECT_FLOAT_EQ(c.weights[1], static_cast<float>(s3 / (s1 + s3) * 2.5));
  Call none = other(RouterKind::kDeepseekV3, std::vector<float>(4, -kInf), 2).run();
  EXPECT_EQ(none.weights, std::vector<float>(2, 0.0F));  // 0 / (0 + 1e-20)
}

TEST(Softmax, RunsOverTheChosen) {
  Call c = other(RouterKind::kSoftmax, {-1, 3, 2.5F, 0, 3}, 3);
  c.bias.clear();
  c.run();
  EXPECT_EQ(c.ids, (Ids{1, 4, 2}));
  const double sum = 2 + std::exp(-0.5);
  EXPECT_FLOAT_EQ(c.weights[0], static_cast<float>(1 / sum));
  EXPECT_FLOAT_EQ(c.weights[2], static_cast<float>(std::exp(-0.5) / sum));
  EXPECT_EQ(other(RouterKind::kSoftmax, {-0.0F, 0.0F, -0.0F, -1}, 3).run().ids,
            (Ids{0, 1, 2}));  // -0 equals +0
}

TEST(Softmax, TakesUpToSixteen) {
  Call c = other(RouterKind::kSoftmax, normal(512, 4), 16).run();
  EXPECT_NEAR(std::accumulate(c.weights.begin(), c.weights.end(), 0.0), 1.0, 1e-6);
  for (size_t j = 1; j < 16; ++j) EXPECT_LE(c.weights[j], c.weights[j - 1]);
}

TEST(Flint, SelectsByBf16LogitAndRoundsWeightsToBf16) {
  // 1.001 and 1.002 are both 1 in BF16: the lower id goes first.
  Call c = other(RouterKind::kFlint, {0.5F, 1.001F, 1.002F, -3.0F}, 3);
  c.bias.clear();
  c.run();
  EXPECT_EQ(c.ids, (Ids{1, 2, 0}));
  const double one = 1 / (1 + std::exp(-1.0)), half = 1 / (1 + std::exp(-0.5));
  EXPECT_EQ(c.weights[0], formats::bf16_to_f32(formats::bf16_from_f64(one / (2 * one + half))));
  EXPECT_EQ(c.weights[0], c.weights[1]);
  for (const float w : c.weights) EXPECT_EQ(bits(w) & 0xFFFFU, 0U);
}

TEST(Routers, RankNanLastAndNeverRepeatAnId) {
  for (const RouterKind kind :
       {RouterKind::kDeepseekV3, RouterKind::kSoftmax, RouterKind::kFlint}) {
    EXPECT_EQ(other(kind, {kNan, 1, kNan, 2, kNan}, 4).run().ids, (Ids{3, 1, 0, 2}))
        << name_of(kind);
    EXPECT_EQ(other(kind, std::vector<float>(9, kNan), 4).run().ids, (Ids{0, 1, 2, 3}))
        << name_of(kind);
    EXPECT_EQ(other(kind, std::vector<float>(9, -kInf), 4).run().ids, (Ids{0, 1, 2, 3}))
        << name_of(kind);
  }
}

// A row's ids and weights are the same alone and at any place among others.
TEST(Routers, RowsDoNotInfluenceEachOther) {
  for (const RouterKind kind : {RouterKind::kDsv4, RouterKind::kHash, RouterKind::kDeepseekV3,
                                RouterKind::kSoftmax, RouterKind::kFlint}) {
    constexpr int64_t kTokens = 8, kExperts = 64;
    Call all{kExperts, normal(kTokens * kExperts, 5), {.kind = kind, .top_k = 6, .scale = 1.5F}};
    all.logits[3 * kExperts + 7] = kNan;
    all.router.groups = 8;
    all.router.groups_kept = 3;
    all.bias = normal(kExperts, 6);
    for (int32_t i = 0; i < 6 * kTokens; ++i)
      all.table.push_back(static_cast<int32_t>(i * 5 % kExperts));
    all.input_ids = {7, 6, 5, 4, 3, 2, 1, 0};
    all.run();
    const Ids ids = all.ids;
    const std::vector<float> weights = all.weights;
    const TopkArgs a = all.args();  // poisons
    for (int64_t t = kTokens - 1; t >= 0; --t) topk(a, t, 1);
    EXPECT_EQ(all.ids, ids) << name_of(kind);
    EXPECT_EQ(bits(all.weights), bits(weights)) << name_of(kind);
  }
}

TEST(Routers, TakeNoRows) {
  Call c{32, {}, {.top_k = 6}};
  c.bias_vl.assign(32, 0.0F);
  EXPECT_TRUE(check_topk(c.args()).ok());
  topk(c.args(), 0, 0);
}

}  // namespace
}  // namespace octet::routing
