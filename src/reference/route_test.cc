// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <gtest/gtest.h>
#include <vector>

#include "reference/reference.h"

namespace octet::reference {
namespace {

using Ints = std::vector<int32_t>;

struct Routed {
  Ints permuted, record;
};

Routed run(const Ints& ids, int64_t top_k, int64_t experts, size_t words) {
  const auto tokens = static_cast<int64_t>(ids.size()) / top_k;
  Routed r{Ints(ids.size(), -7), Ints(words, -7)};
  route({{ids.data(), false}, tokens, top_k, experts, r.permuted.data(), r.record.data()});
  const std::vector<int64_t> wide(ids.begin(), ids.end());
  Routed w{Ints(ids.size(), -7), Ints(words, -7)};
  route({{wide.data(), true}, tokens, top_k, experts, w.permuted.data(), w.record.data()});
  EXPECT_EQ(w.permuted, r.permuted);
  EXPECT_EQ(w.record, r.record);
  return r;
}

// T 2, k 2, E 4: ctas 4, C 4, words 4 + 8 + 32.
TEST(Route, ExpertsAscendAndTokensAscendInside) {
  const Routed r = run({3, 1, 0, 3}, 2, 4, 44);
  EXPECT_EQ(r.permuted, (Ints{16, 8, 0, 17}));
  Ints want(44, 0);
  want[0] = 24, want[1] = 3;
  want[4] = 0, want[5] = 1, want[6] = 3;    // tile -> expert
  want[8] = 1, want[9] = 9, want[10] = 18;  // tile -> row limit
  want[12] = 1;                             // expert 0: token 1
  want[12 + 16 + 1] = 1;                    // expert 3: tokens 0 and 1
  EXPECT_EQ(r.record, want);
}

TEST(Route, IdsOutsideTheExpertsGetNoRow) {
  const Routed r = run({-1, 4, 2, INT32_MIN}, 2, 4, 44);
  EXPECT_EQ(r.permuted, (Ints{-1, -1, 0, -1}));
  EXPECT_EQ(r.record[0], 8);
  EXPECT_EQ(r.record[4], 2);
  EXPECT_EQ(r.record[8], 1);
  EXPECT_EQ(r.record[12], 1);
}

TEST(Route, IdsOfMoreThan32BitsAreNotCutShort) {
  const int64_t id = int64_t{1} << 32;
  Ints permuted(1, -7);
  Ints record(4 + 8 + 8, -7);
  route({{&id, true}, 1, 1, 4, permuted.data(), record.data()});
  EXPECT_EQ(permuted[0], -1);
  EXPECT_EQ(record, Ints(20, 0));
}

TEST(Route, RepeatedIdGetsTheSameRowAndCountsOnce) {
  const Routed r = run({2, 2, 2, 1}, 2, 4, 44);
  EXPECT_EQ(r.permuted, (Ints{8, 8, 9, 0}));
  EXPECT_EQ(r.record[9], 10);
}

TEST(Route, MoreThanEightRowsTakeConsecutiveTiles) {
  const Routed r = run(Ints(10, 1), 1, 2, 4 + 8 + 24);  // f 2, ctas 2 + 8 / 8 = 3
  EXPECT_EQ(r.record[1], 2);
  EXPECT_EQ(r.record[5], 1);
  EXPECT_EQ(r.record[8], 8);
  EXPECT_EQ(r.record[9], 10);
  for (int32_t t = 0; t < 10; ++t) EXPECT_EQ(r.record[12 + t], t);
}

TEST(Route, NoTokensGiveFourZeroWords) {
  const Routed r = run({}, 6, 32, 4);
  EXPECT_EQ(r.record, Ints(4, 0));
}

TEST(Front, IsItsThreeOperations) {
  const std::vector<Bf16> x(64, Bf16{0x3F80});
  const std::vector<float> logits = {1, 2, 3, 4, 4, 3, 2, 1};
  const std::vector<float> bias(4, 0.0F);
  std::vector<uint8_t> quant(64, 0xFF);
  std::vector<uint8_t> scale(2, 0xFF);
  Ints ids(4, -7);
  std::vector<float> weights(4);
  Ints permuted(4, -7);
  Ints record(44, -7);
  FrontArgs args{};
  args.quantize = {x.data(), 2, 32, ScaleLayout::kLinear, quant.data(), scale.data()};
  args.topk.logits = logits.data();
  args.topk.tokens = 2;
  args.topk.experts = 4;
  args.topk.router.top_k = 2;
  args.topk.bias = bias.data();
  args.topk.topk_ids = ids.data();
  args.topk.topk_weights = weights.data();
  args.permuted = permuted.data();
  args.record = record.data();
  front(args);
  EXPECT_EQ(ids, (Ints{3, 2, 0, 1}));
  EXPECT_EQ(record, run(ids, 2, 4, 44).record);
  EXPECT_EQ(permuted, run(ids, 2, 4, 44).permuted);
  EXPECT_EQ(scale[1], 119);
  EXPECT_EQ(quant[63], 0x78);
}

}  // namespace
}  // namespace octet::reference
