// SPDX-License-Identifier: Apache-2.0
#include "reference/routing.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>

#include "formats/bf16.h"
#include "reference/reference.h"

namespace octet::reference {
namespace {

constexpr int64_t kTokens = 6, kHidden = 96, kExperts = 16, kTopK = 3;

// A gate, a router, and a right program's logits, ids and weights, to be spoilt.
struct Routed {
  explicit Routed(RouterKind kind) {
    std::mt19937 rng(3);
    std::normal_distribution<float> normal;
    for (Bf16& v : x) v = formats::bf16_from_f32(normal(rng));
    for (float& v : weight) v = normal(rng) * 0.3F;
    for (float& v : bias) v = normal(rng) * 0.1F;
    for (float& v : bias_vl) v = normal(rng);
    for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(i % kExperts);
    router.kind = kind;
    router.top_k = kTopK;
    router.scale = 1.5F;
    if (kind == RouterKind::kDeepseekV3) {
      router.groups = 4;
      router.groups_kept = 2;
    }
    if (kind == RouterKind::kDsv4 || kind == RouterKind::kHash) router.image_sentinel_lo = 5;
    make_logits();
    make_choice();
  }
  GateArgs gate() const {
    return {
        .x = x.data(),
        .weight = {Dtype::kF32,
                   {kExperts, kHidden},
                   reinterpret_cast<const std::byte*>(weight.data())},
        .logit_bias = {Dtype::kF32, {kExperts}, reinterpret_cast<const std::byte*>(bias.data())},
        .tokens = kTokens,
        .hidden = kHidden,
        .experts = kExperts,
        .round_to_bf16 = router.kind == RouterKind::kFlint};
  }
  TopkArgs topk() {
    const bool images = router.image_sentinel_lo > 0;
    return {.logits = logits.data(),
            .tokens = kTokens,
            .experts = kExperts,
            .router = router,
            .bias = bias.data(),
            .bias_vl = images ? bias_vl.data() : nullptr,
            .input_ids = {input_ids.data(), true},
            .table = router.kind == RouterKind::kHash ? table.data() : nullptr,
            .vocab = 5,
            .topk_ids = ids.data(),
            .topk_weights = weights.data()};
  }
  // Binary32, columns descending: an order of its own.
  void make_logits() {
    for (int64_t i = 0; i < kTokens * kExperts; ++i) {
      float sum = 0;
      for (int64_t c = kHidden - 1; c >= 0; --c) {
        sum += formats::bf16_to_f32(x[i / kExperts * kHidden + c]) *
               weight[i % kExperts * kHidden + c];
      }
      sum += bias[i % kExperts];
      if (router.kind == RouterKind::kFlint)
        sum = formats::bf16_to_f32(formats::bf16_from_f32(sum));
      logits[i] = sum;
    }
  }
  void make_choice() { reference::topk(topk()); }
  RoutingVerdict judged() { return judge_routing(gate(), topk()); }

  RouterSpec router;
  std::vector<Bf16> x = std::vector<Bf16>(kTokens * kHidden);
  std::vector<float> weight = std::vector<float>(kExperts * kHidden);
  std::vector<float> bias = std::vector<float>(kExperts), bias_vl = bias;
  std::vector<int32_t> table = std::vector<int32_t>(5 * kTopK);
  std::vector<int64_t> input_ids = {0, 6, 1, 4, 9, 3};  // 6 and 9 are images
  std::vector<float> logits = std::vector<float>(kTokens * kExperts);
  std::vector<int32_t> ids = std::vector<int32_t>(kTokens * kTopK);
  std::vector<float> weights = std::vector<float>(kTokens * kTopK);
};

class JudgeRouting : public testing::TestWithParam<RouterKind> {};
INSTANTIATE_TEST_SUITE_P(Routers, JudgeRouting,
                         testing::Values(RouterKind::kDsv4, RouterKind::kHash,
                                         RouterKind::kDeepseekV3, RouterKind::kSoftmax,
                                         RouterKind::kFlint),
                         [](const auto& router) { return std::string(name_of(router.param)); });

TEST_P(JudgeRouting, TakesARightProgram) {
  const RoutingVerdict v = Routed(GetParam()).judged();
  EXPECT_TRUE(v.ok()) << v.logit.column << " " << v.id.column << " " << v.weight.got;
  EXPECT_EQ(v.num_logits, kTokens * kExperts);
  EXPECT_EQ(v.num_slots, kTokens * kTopK);
  EXPECT_EQ(v.num_ties, 0);
  EXPECT_LE(v.worst_logit, 1);
}

TEST_P(JudgeRouting, FindsALogitThatIsOff) {
  Routed r(GetParam());
  float& logit = r.logits[2 * kExperts + 7];
  logit += std::fabs(logit) * 0x1p-6F;
  r.make_choice();
  const RoutingVerdict v = r.judged();
  EXPECT_EQ(v.num_logits_outside, 1);
  EXPECT_EQ(v.logit.token, 2);
  EXPECT_EQ(v.logit.column, 7);
  if (GetParam() != RouterKind::kFlint) {  // whose BF16 leaves no room
    EXPECT_GT(v.worst_logit, 1);
  }
  EXPECT_FALSE(v.ok());
}

TEST_P(JudgeRouting, FindsIdsInAnotherOrderAndOtherIds) {
  Routed r(GetParam());
  std::swap(r.ids[3], r.ids[4]);
  std::swap(r.weights[3], r.weights[4]);
  r.ids[4 * kTopK + 2] = r.ids[4 * kTopK];  // one that repeats
  r.ids[5 * kTopK + 2] = kExperts;
  const RoutingVerdict v = r.judged();
  EXPECT_EQ(v.num_ids_wrong, 3);
  EXPECT_EQ(v.id.token, 1);
  EXPECT_EQ(v.id.column, 0);
  EXPECT_EQ(v.id.got, r.ids[3]);
  EXPECT_EQ(v.id.want.value, r.ids[4]);
}

TEST_P(JudgeRouting, FindsAWeightThatIsOff) {
  Routed r(GetParam());
  const bool bf16 = GetParam() == RouterKind::kFlint;
  r.weights[7] *= 1 + (bf16 ? 0x1p-6F : 0x1p-16F);
  const RoutingVerdict v = r.judged();
  EXPECT_EQ(v.num_weights_outside, 1);
  EXPECT_EQ(v.weight.token, 2);
  EXPECT_EQ(v.weight.column, 1);
}

TEST(RoutingJudge, ARouterWithoutItsBiasIsWrong) {
  Routed r(RouterKind::kDsv4);
  TopkArgs blind = r.topk();
  const std::vector<float> none(kExperts);
  blind.bias = blind.bias_vl = none.data();
  reference::topk(blind);
  EXPECT_GT(r.judged().num_ids_wrong, 0);
}

TEST(RoutingJudge, LogitsThatFellTheOtherWayAreATie) {
  Routed r(RouterKind::kSoftmax);
  std::copy_n(r.weight.data(), kHidden, r.weight.data() + kHidden);  // experts 0 and 1 alike
  std::fill(r.bias.begin(), r.bias.end(), 0.0F);
  r.bias[0] = r.bias[1] = 50;  // and the best
  r.bias[0] = std::nextafter(50.0F, 60.0F);
  r.make_logits();
  for (int64_t t = 0; t < kTokens; ++t) r.logits[t * kExperts] = r.logits[t * kExperts + 1] - 4e-6F;
  r.make_choice();
  const RoutingVerdict v = r.judged();
  EXPECT_TRUE(v.ok());
  EXPECT_EQ(v.num_ties, 2 * kTokens);
}

TEST(RoutingJudge, GivenLogitsAreTaken) {
  Routed r(RouterKind::kDsv4);
  r.logits[0] = 100;
  r.logits[kExperts] = std::nanf("");
  r.logits[2 * kExperts] = INFINITY;
  r.make_choice();
  const RoutingVerdict v = judge_routing({}, r.topk());
  EXPECT_TRUE(v.ok()) << v.weight.got << " " << v.weight.want.value;
  EXPECT_EQ(v.num_logits, 0);
}

TEST(GateLogits, ABf16GateIsExactWhereItsSumIs) {
  const std::vector<Bf16> x(2, formats::bf16_from_f32(3));
  const std::vector<Bf16> w = {formats::bf16_from_f32(0.5F), formats::bf16_from_f32(-2)};
  const GateArgs args{
      .x = x.data(),
      .weight = {Dtype::kBf16, {1, 2}, reinterpret_cast<const std::byte*>(w.data())},
      .tokens = 1,
      .hidden = 2,
      .experts = 1};
  const std::vector<Span> logits = gate_logits(args);
  ASSERT_EQ(logits.size(), 1U);
  EXPECT_EQ(logits[0].value, -4.5);
  EXPECT_NEAR(logits[0].hi - logits[0].lo, 2 * 7.5 * 3 * 0x1p-24, 1e-12);
}

}  // namespace
}  // namespace octet::reference
