// SPDX-License-Identifier: Apache-2.0
#include "cpu/finalize.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

#include "core/test_threads.h"
#include "cpu/ops.h"
#include "cpu/panel_dot.h"
#include "formats/bf16.h"

namespace octet::cpu {
namespace {

struct Problem {
  int64_t tokens, top_k, hidden;
  float scale = 1.0F;
  std::vector<Bf16> rows, shared;
  std::vector<float> weights;
  std::vector<int32_t> permuted;

  FinalizeArgs args(Bf16* y) const {
    return {.rows = rows.data(),
            .topk_weights = weights.data(),
            .permuted = permuted.data(),
            .shared = shared.empty() ? nullptr : shared.data(),
            .scale = scale,
            .tokens = tokens,
            .top_k = top_k,
            .hidden = hidden,
            .y = y};
  }
};

// Every fourth slot is -1; the rows of no slot are NaN.
Problem random_problem(int64_t tokens, int64_t top_k, int64_t hidden, bool shared, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> draw(0.0F, 1.0F);
  Problem p{tokens, top_k, hidden, 1.0F, {}, {}, {}, {}};
  const int64_t slots = tokens * top_k;
  p.rows.assign(static_cast<size_t>(slots * 2 * hidden), Bf16{0xFFFF});
  for (int64_t s = 0; s < slots; ++s) {
    p.permuted.push_back(s % 4 == 3 ? -1 : static_cast<int32_t>(2 * (slots - 1 - s)));
    p.weights.push_back(draw(rng));
    for (int64_t c = 0; c < hidden && p.permuted.back() >= 0; ++c)
      p.rows[static_cast<size_t>(p.permuted.back() * hidden + c)] =
          formats::bf16_from_f32(draw(rng));
  }
  for (int64_t i = 0; shared && i < tokens * hidden; ++i)
    p.shared.push_back(formats::bf16_from_f32(draw(rng)));
  return p;
}

std::vector<uint16_t> run(const Problem& p, int threads) {
  std::vector<Bf16> y(static_cast<size_t>(p.tokens * p.hidden), Bf16{0xFFFF});
  TestThreads pool(threads);
  finalize(p.args(y.data()), pool);
  std::vector<uint16_t> bits;
  for (const Bf16 v : y) bits.push_back(v.bits);
  return bits;
}

// One token, one column.
uint16_t one(const std::vector<float>& rows, const std::vector<float>& weights,
             std::vector<int32_t> permuted, float scale = 1.0F,
             const std::vector<float>& shared = {}) {
  Problem p{
      1, static_cast<int64_t>(weights.size()), 1, scale, {}, {}, weights, std::move(permuted)};
  for (const float v : rows) p.rows.push_back(formats::bf16_from_f32(v));
  for (const float v : shared) p.shared.push_back(formats::bf16_from_f32(v));
  return run(p, 1)[0];
}
uint16_t bf16(float v) { return formats::bf16_from_f32(v).bits; }

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Finalize, AddsWeightedRowsAndSkipsNegativeSlots) {
  EXPECT_EQ(one({3, 5, 7}, {2, 10, 100}, {2, -1, 0}), bf16(314));
  EXPECT_EQ(one({kNan, 1}, {1, 1}, {-1, 1}), bf16(1));   // row 0 is never read for -1
  EXPECT_EQ(one({kNan}, {kNan, 1}, {-1, -1}), bf16(0));  // nothing at all
  EXPECT_EQ(one({2}, {1, 3}, {0, 0}), bf16(8));          // a duplicate id: both weights
}

TEST(Finalize, AddsInAscendingOrderOfSlots) {
  EXPECT_EQ(one({0x1p25F, -0x1p25F, 1}, {1, 1, 1}, {0, 1, 2}), bf16(1));
  EXPECT_EQ(one({0x1p25F, -0x1p25F, 1}, {1, 1, 1}, {0, 2, 1}), bf16(0));  // 2^25 + 1 is 2^25
}

// (1 + 2^-23) * (1 + 2^-7) - (1 + 2^-7): what is left is 2^-23 * (1 + 2^-7) only if the product is not rounded.
TEST(Finalize, IsAFusedMultiplyAdd) {
  const float row = 1.0F + 0x1p-7F, weight = 1.0F + 0x1p-23F;
  EXPECT_EQ(one({row, row}, {-1.0F, weight}, {0, 1}), bf16(0x1p-23F * (1.0F + 0x1p-7F)));
}

TEST(Finalize, ScalesThenAddsTheSharedRowInOneRounding) {
  EXPECT_EQ(one({3}, {2}, {0}, 1.5F), bf16(9));
  EXPECT_EQ(one({3}, {2}, {0}, 1.5F, {100}), bf16(109));
  EXPECT_EQ(one({1}, {1}, {-1}, 1.5F, {-0.5F}), bf16(-0.5F));
  // 1 + 2^-8 is a BF16 tie; the routed 2^-20 decides it only before the rounding.
  EXPECT_EQ(one({0x1p-8F, 0x1p-20F}, {1, 1}, {0, 1}, 1.0F, {1.0F}), bf16(1.0F + 0x1p-7F));
  EXPECT_EQ(one({0x1p-8F}, {1}, {0}, 1.0F, {1.0F}), bf16(1.0F));
}

TEST(Finalize, CarriesInfinityAndNan) {
  EXPECT_EQ(one({kInf, 1}, {1, 1}, {0, 1}), bf16(kInf));
  EXPECT_EQ(one({kInf, -kInf}, {1, 1}, {0, 1}), 0x7FC0);
  EXPECT_EQ(one({1}, {kNan}, {0}), 0x7FC0);
  EXPECT_EQ(one({kInf}, {0}, {0}), 0x7FC0);
}

TEST(Finalize, GivesTheSameBytesForARowAloneAndAnyThreads) {
  for (const bool shared : {false, true}) {
    Problem p = random_problem(8, 6, 1300, shared, 1);  // three units a row, the last one short
    p.scale = 1.5F;
    const std::vector<uint16_t> all = run(p, 1);
    for (const uint16_t v : all) ASSERT_NE(v, 0x7FC0);
    for (const int threads : {2, 3}) EXPECT_EQ(run(p, threads), all);
    for (int64_t t = 0; t < p.tokens; ++t) {
      Problem alone = p;
      alone.tokens = 1;
      alone.weights.assign(p.weights.begin() + t * p.top_k, p.weights.begin() + (t + 1) * p.top_k);
      alone.permuted.assign(p.permuted.begin() + t * p.top_k,
                            p.permuted.begin() + (t + 1) * p.top_k);
      if (shared)
        alone.shared.assign(p.shared.begin() + t * p.hidden, p.shared.begin() + (t + 1) * p.hidden);
      const std::vector<uint16_t> got = run(alone, 2);
      EXPECT_TRUE(std::equal(got.begin(), got.end(), all.begin() + t * p.hidden)) << t;
    }
  }
}

TEST(Finalize, IsTheSameOnBothInstructionSets) {
  if (!has_avx2()) GTEST_SKIP() << "no AVX2 here";
#if defined(__x86_64__)
  for (const bool shared : {false, true}) {
    const Problem p = random_problem(3, 8, kFinalizeColumns - 3, shared, 2);
    for (int64_t t = 0; t < p.tokens; ++t) {
      std::vector<Bf16> portable(static_cast<size_t>(p.tokens * p.hidden), Bf16{0xFFFF}),
          avx2 = portable;
      finalize_columns_portable(p.args(portable.data()), {t, 5, p.hidden - 5});
      finalize_columns_avx2(p.args(avx2.data()), {t, 5, p.hidden - 5});
      EXPECT_EQ(portable, avx2);
      EXPECT_EQ(avx2[static_cast<size_t>(t * p.hidden + 4)],
                Bf16{0xFFFF});  // columns of others stay
    }
  }
#endif
}

TEST(Finalize, TakesNoRows) {
  EXPECT_TRUE(run(Problem{0, 6, 64, 1.0F, {}, {}, {}, {}}, 2).empty());
}

}  // namespace
}  // namespace octet::cpu
