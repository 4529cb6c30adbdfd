// SPDX-License-Identifier: Apache-2.0
// front against topk, mxfp8_quantize and route one after another; topk on any number of threads.
#include <bit>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "core/test_threads.h"
#include "cpu/ops.h"
#include "formats/bf16.h"
#include "layouts/scale_layout.h"
#include "routing/record.h"
#include "routing/topk.h"

namespace octet::cpu {
namespace {

constexpr int64_t kExperts = 64, kTopK = 6, kHidden = 256;

struct Outputs {
  std::vector<int32_t> ids, permuted, record;
  std::vector<uint32_t> weights;  // bits
  std::vector<uint8_t> x_quant, x_scale;
  friend bool operator==(const Outputs&, const Outputs&) = default;
};

struct Inputs {
  int64_t tokens;
  std::vector<float> logits, bias, bias_vl;
  std::vector<Bf16> x;
  std::vector<int64_t> input_ids;

  explicit Inputs(int64_t num_tokens, unsigned seed) : tokens(num_tokens) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> draw(0.0F, 3.0F);
    for (int64_t i = 0; i < tokens * kExperts; ++i) logits.push_back(draw(rng));
    for (int64_t i = 0; i < kExperts; ++i) {
      bias.push_back(draw(rng));
      bias_vl.push_back(draw(rng));
    }
    for (int64_t i = 0; i < tokens * kHidden; ++i) x.push_back(formats::bf16_from_f32(draw(rng)));
    for (int64_t t = 0; t < tokens; ++t) input_ids.push_back(98 + t);  // 100 ... 104 are images
    if (tokens > 3) logits[3 * kExperts] = std::nanf("");
  }

  FrontArgs args(Outputs& out) const {
    const int64_t ctas = routing::max_ctas(tokens, kTopK, kExperts);
    const auto slots = static_cast<size_t>(tokens * kTopK);
    out = {std::vector<int32_t>(slots, -7),
           std::vector<int32_t>(slots, -7),
           std::vector<int32_t>(static_cast<size_t>(routing::record_words(ctas)), -7),
           std::vector<uint32_t>(slots, 0xFFFFFFFFU),
           std::vector<uint8_t>(x.size(), 0xFF),
           std::vector<uint8_t>(x.size() / 32, 0xFF)};
    return {.quantize = {x.data(), tokens, kHidden, ScaleLayout::kLinear, out.x_quant.data(),
                         out.x_scale.data()},
            .topk = {.logits = logits.data(),
                     .tokens = tokens,
                     .experts = kExperts,
                     .router = {.top_k = kTopK, .scale = 1.5F, .image_sentinel_lo = 100},
                     .bias = bias.data(),
                     .bias_vl = bias_vl.data(),
                     .input_ids = {input_ids.data(), true},
                     .table = nullptr,
                     .vocab = 0,
                     .topk_ids = out.ids.data(),
                     .topk_weights = reinterpret_cast<float*>(out.weights.data())},
            .permuted = out.permuted.data(),
            .record = out.record.data()};
  }
};

Outputs run_front(const Inputs& in, int threads) {
  Outputs out;
  TestThreads pool(threads);
  front(in.args(out), pool);
  return out;
}

Outputs run_parts(const Inputs& in, int threads) {
  Outputs out;
  TestThreads pool(threads);
  const FrontArgs a = in.args(out);
  topk(a.topk, pool);
  mxfp8_quantize(a.quantize, pool);
  routing::route({{out.ids.data(), false}, in.tokens, kTopK, kExperts, a.permuted, a.record});
  return out;
}

TEST(Front, GivesTheBytesOfItsThreeParts) {
  for (const int64_t tokens : {0, 1, 2, 7, 8, 20}) {
    const Inputs in(tokens, static_cast<unsigned>(tokens));
    const Outputs parts = run_parts(in, 1);
    for (const int threads : {1, 2, 3}) {
      EXPECT_EQ(run_front(in, threads), parts) << tokens << " rows, " << threads << " threads";
      EXPECT_EQ(run_parts(in, threads), parts) << tokens << " rows, " << threads << " threads";
    }
  }
}

TEST(Front, RecordsWhatItChose) {
  const Inputs in(8, 1);
  const Outputs out = run_front(in, 2);
  // Each routed row of the record holds its token.
  const routing::RecordView record(out.record.data(), routing::max_ctas(8, kTopK, kExperts));
  for (int64_t s = 0; s < 8 * kTopK; ++s) {
    const int32_t row = out.permuted[static_cast<size_t>(s)];
    ASSERT_GE(row, 0);
    EXPECT_EQ(record.token[row], s / kTopK);
    EXPECT_EQ(record.expert[row / kTileRows], out.ids[static_cast<size_t>(s)]);
    EXPECT_LT(row, record.limit[row / kTileRows]);
  }
}

// Top-k of a row, alone and among others: the same bits.
TEST(Front, RowsDoNotInfluenceEachOther) {
  const Inputs in(8, 2);
  const Outputs all = run_front(in, 2);
  for (int64_t t = 0; t < 8; ++t) {
    Inputs one = in;
    one.tokens = 1;
    one.logits.assign(in.logits.begin() + t * kExperts, in.logits.begin() + (t + 1) * kExperts);
    one.x.assign(in.x.begin() + t * kHidden, in.x.begin() + (t + 1) * kHidden);
    one.input_ids = {in.input_ids[static_cast<size_t>(t)]};
    const Outputs out = run_front(one, 1);
    EXPECT_TRUE(std::equal(out.ids.begin(), out.ids.end(), all.ids.begin() + t * kTopK));
    EXPECT_TRUE(
        std::equal(out.weights.begin(), out.weights.end(), all.weights.begin() + t * kTopK));
    EXPECT_TRUE(
        std::equal(out.x_quant.begin(), out.x_quant.end(), all.x_quant.begin() + t * kHidden));
  }
}

}  // namespace
}  // namespace octet::cpu
