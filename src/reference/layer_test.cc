// SPDX-License-Identifier: Apache-2.0
#include "reference/layer.h"

#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "formats/bf16.h"
#include "reference/product.h"
#include "reference/reference.h"

namespace octet::reference {
namespace {

using Bytes = std::vector<uint8_t>;

LayerSpec spec_of(int64_t experts, int64_t hidden, int64_t intermediate) {
  LayerSpec spec;
  spec.hidden = hidden;
  spec.intermediate = intermediate;
  spec.experts = spec.local_experts = experts;
  return spec;
}

// Random MXFP4 experts and tokens: T 3, k 2, E 4, H 128, I 96.
struct Problem {
  static constexpr int64_t kT = 3, kK = 2, kE = 4, kH = 128, kI = 96, kIp = 128;
  static constexpr float kLimit = 0.5F;  // below many accumulators
  std::mt19937 rng{7};
  Bytes gate = bytes(kE * kI * kH / 2, 0, 256), up = bytes(kE * kI * kH / 2, 0, 256);
  Bytes down = bytes(kE * kH * kI / 2, 0, 256);
  Bytes gate_scale = bytes(kE * kI * kH / 32, 120, 124);
  Bytes up_scale = bytes(kE * kI * kH / 32, 120, 124);
  Bytes down_scale = bytes(kE * kH * kI / 32, 120, 124);
  std::vector<Bf16> x, shared;
  std::vector<int32_t> ids = {0, 3, 3, 1, -1, 0};
  std::vector<float> weights = {0.5F, 0.25F, 1.0F, -0.5F, std::nanf(""), 2.0F};
  LayerArgs args;

  Problem() {
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < kT * kH; ++i) {
      x.push_back(formats::bf16_from_f32(normal(rng)));
      shared.push_back(formats::bf16_from_f32(normal(rng)));
    }
    args.spec = spec_of(kE, kH, kI);
    args.tokens = kT;
    args.top_k = kK;
    args.x = x.data();
    args.topk_ids = ids.data();
    args.topk_weights = weights.data();
    args.shared = shared.data();
    args.expert = [this](int64_t e) { return expert(e); };
  }
  Bytes bytes(int64_t n, uint32_t from, uint32_t to) {
    Bytes b(n);
    for (uint8_t& v : b) v = static_cast<uint8_t>(from + rng() % (to - from));
    return b;
  }
  layouts::ExpertWeights expert(int64_t e) const {
    const auto view = [&](const Bytes& w, const Bytes& s, int64_t rows, int64_t cols) {
      return layouts::WeightView{WeightFormat::kMxfp4,
                                 &w[e * rows * cols / 2],
                                 &s[e * rows * cols / 32],
                                 cols / 2,
                                 cols / 32,
                                 rows,
                                 cols,
                                 0};
    };
    layouts::ExpertWeights w;
    w.gate = view(gate, gate_scale, kI, kH);
    w.up = view(up, up_scale, kI, kH);
    w.down = view(down, down_scale, kH, kI);
    w.limit = kLimit;
    return w;
  }
  // The same layer by the operations, through prepared tensors.
  std::vector<Bf16> by_operations() const {
    const int64_t ctas = 4 + (kT * kK - 4) / 8;
    Bytes w13(kE * 2 * kIp * kH / 2), w13_scale(kE * 2 * kIp * kH / 32), w2(kE * kH * kIp / 2);
    Bytes w2_scale(kE * kH * kIp / 32), xq(kT * kH), xs(kT * kH / 32), h(8 * ctas * kIp, 0xFF);
    Bytes hs(ctas * kIp * 4, 0xFF);
    std::vector<float> clamp(kE);
    std::vector<int32_t> permuted(kT * kK), record(4 + 2 * 4 + 8 * ctas);
    std::vector<Bf16> rows(kT * kK * 8 * kH, Bf16{0xFFFF}), y(kT * kH);
    prepare({gate.data(), up.data(), gate_scale.data(), up_scale.data(), down.data(),
             down_scale.data(), kLimit, kE, kH, kI, w13.data(), w13_scale.data(), w2.data(),
             w2_scale.data(), clamp.data()});
    mxfp8_quantize({x.data(), kT, kH, ScaleLayout::kLinear, xq.data(), xs.data()});
    route({{ids.data(), false}, kT, kK, kE, permuted.data(), record.data()});
    gemm1({xq.data(), xs.data(), record.data(), w13.data(), w13_scale.data(), clamp.data(), kT, kK,
           kE, kH, kIp, kI, h.data(), hs.data()});
    gemm2({h.data(), hs.data(), record.data(), w2.data(), w2_scale.data(), kT, kK, kE, kH, kIp,
           rows.data()});
    finalize(
        {rows.data(), weights.data(), permuted.data(), shared.data(), 1.0F, kT, kK, kH, y.data()});
    return y;
  }
};

std::vector<Bf16> nominal(const std::vector<Span>& y) {
  std::vector<Bf16> out;
  for (const Span& s : y) out.push_back(formats::bf16_from_f64(s.value));
  return out;
}

TEST(Layer, IsTheOperationsOneAfterAnother) {
  Problem p;
  p.args.spec.activations = Activations::kMxfp8;
  EXPECT_EQ(nominal(layer(p.args)), p.by_operations());
}

TEST(Layer, IntervalsHoldTheirValueAndAreNarrow) {
  Problem p;
  for (const Activations a : {Activations::kBf16, Activations::kMxfp8}) {
    p.args.spec.activations = a;
    for (const Span& s : layer(p.args)) {
      ASSERT_LE(s.lo, s.value);
      ASSERT_GE(s.hi, s.value);
      ASSERT_LT(s.hi - s.lo, 1.0) << "outputs are about 5";
    }
  }
}

TEST(Layer, PlantedWrongExpertIsCaught) {
  Problem p;
  const std::vector<Span> want = layer(p.args);
  std::vector<Bf16> got = nominal(want);
  EXPECT_EQ(compare(want, got.data(), p.kT, p.kH).num_outside, 0);
  p.ids[2] = 2;  // token 1
  got = nominal(layer(p.args));
  const Worst worst = compare(want, got.data(), p.kT, p.kH);
  EXPECT_GT(worst.share, 10);
  EXPECT_EQ(worst.token, 1);
  EXPECT_GT(worst.num_outside, p.kH / 2);
  EXPECT_LE(worst.num_outside, p.kH);
}

TEST(Layer, RanksOfExpertsAddUpToTheWhole) {
  Problem p;
  p.args.shared = nullptr;
  p.weights[4] = 0;
  const std::vector<Span> whole = layer(p.args);
  std::vector<double> sum(p.kT * p.kH);
  for (const int64_t first : {0, 2}) {
    p.args.spec.first_expert = first;
    p.args.spec.local_experts = 2;
    p.args.expert = [&](int64_t local) {
      EXPECT_LT(local, 2);
      return p.expert(first + local);
    };
    const std::vector<Span> part = layer(p.args);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i].value;
  }
  for (size_t i = 0; i < sum.size(); ++i) {
    ASSERT_NEAR(sum[i], whole[i].value, 0.02 * std::fabs(sum[i]) + 0.1) << i;
  }
}

TEST(Layer, PartsOfTheIntermediateAddUpToTheWhole) {
  Problem p;
  p.args.shared = nullptr;
  const std::vector<Span> whole = layer(p.args);
  std::vector<double> sum(p.kT * p.kH);
  for (const int64_t first : {0, 48}) {  // the second part begins inside a scale block
    p.args.expert = [&](int64_t e) {
      layouts::ExpertWeights w = p.expert(e);
      w.gate = w.gate.slice_rows(first, 48);
      w.up = w.up.slice_rows(first, 48);
      w.down = w.down.slice_cols(first, 48);
      return w;
    };
    const std::vector<Span> part = layer(p.args);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i].value;
  }
  for (size_t i = 0; i < sum.size(); ++i) {
    ASSERT_NEAR(sum[i], whole[i].value, 0.02 * std::fabs(sum[i]) + 0.1) << i;
  }
}

TEST(Layer, FactorsBiasesAlphaAndBetaAreGptOssOrder) {
  // One token, one expert, H 32, I 32; only column 0 of everything is not 0.
  Bytes gate(32 * 16), up = gate, down = gate;
  const Bytes scale(32, 127);
  gate[0] = 4, up[0] = 6, down[0] = 2;  // 2, 4, 1
  std::vector<Bf16> x(32), gate_bias(32), up_bias(32), down_bias(32);
  x[0] = {0x3F80};
  gate_bias[0] = up_bias[0] = {0x3F80};    // 1
  down_bias[0] = down_bias[1] = {0x4000};  // 2
  const int32_t id = 0;
  const float weight = 0.5F;
  LayerArgs args;
  args.spec = spec_of(1, 32, 32);
  args.spec.swiglu = {.alpha = 1.702F, .beta = 1.0F};
  args.tokens = args.top_k = 1;
  args.x = x.data();
  args.topk_ids = &id;
  args.topk_weights = &weight;
  args.expert = [&](int64_t) {
    layouts::ExpertWeights w;
    w.gate = {WeightFormat::kMxfp4, gate.data(), scale.data(), 16, 1, 32, 32, 0};
    w.up = {WeightFormat::kMxfp4, up.data(), scale.data(), 16, 1, 32, 32, 0};
    w.down = {WeightFormat::kMxfp4, down.data(), scale.data(), 16, 1, 32, 32, 0};
    w.gate_alpha = 0.5F, w.up_alpha = 0.25F, w.down_alpha = 3.0F;
    w.gate_bias = {gate_bias.data()}, w.up_bias = {up_bias.data()},
    w.down_bias = {down_bias.data()};
    w.limit = 7.0F;
    return w;
  };
  // gate 2 * 0.5 + 1, up 4 * 0.25 + 1
  const double h = (2 + 1) * (2 / (1 + std::exp(-1.702 * 2)));
  const double row = formats::bf16_to_f32(formats::bf16_from_f64(h)) * 3 + 2;
  const std::vector<Span> y = layer(args);
  EXPECT_EQ(y[0].value, 0.5 * formats::bf16_to_f32(formats::bf16_from_f64(row)));
  EXPECT_EQ(y[1].value, 1.0);
}

TEST(Layer, NoTokensGiveNothing) {
  Problem p;
  p.args.tokens = 0;
  EXPECT_TRUE(layer(p.args).empty());
}

TEST(Product, FixedPointUnitIsThatOfSection9) {
  std::vector<double> row(64, 0.0);
  row[0] = 1.0;      // 2^0 <= amax: unit 2^-14
  row[32] = 1.9999;  // above 32639 * 2^-14 = 1.99212: unit 2^-13
  const Room room = fixed_point_room(row, 32, 0);
  EXPECT_EQ(room.most[31], 0x1p-15);
  EXPECT_EQ(room.most[32], 0x1p-14);
  const Room shifted_blocks = fixed_point_room(row, 32, 16);  // blocks begin at 0, 16 and 48
  EXPECT_EQ(shifted_blocks.most[15], 0x1p-15);
  EXPECT_EQ(shifted_blocks.most[16], 0x1p-14);
  EXPECT_EQ(shifted_blocks.most[47], 0x1p-14);
  EXPECT_EQ(shifted_blocks.most[48], 0.0);
}

TEST(Product, ErrorOfASumIsCertainForFewTermsAndLikelyForMany) {
  EXPECT_EQ(sum_error(3), 4 * 0x1p-24);
  EXPECT_EQ(sum_error(4096), (8 * 64 + 512) * 0x1p-24);
}

TEST(Compare, NanIsRightOnlyWhereTheReferenceIsNan) {
  const double nan = std::nan("");
  const Bf16 got_nan{0x7FC0};
  const Bf16 got_one{0x3F80};
  EXPECT_EQ(compare({{nan, nan, nan}}, &got_nan, 1, 1).num_outside, 0);
  EXPECT_EQ(compare({{nan, nan, nan}}, &got_one, 1, 1).num_outside, 1);
  EXPECT_EQ(compare({{1, 1, 1}}, &got_nan, 1, 1).num_outside, 1);
  EXPECT_GT(compare({{1, 1, 1}}, &got_nan, 1, 1).share, 1);
  EXPECT_EQ(compare({{2, nan, 3}}, &got_one, 1, 1).num_outside, 0) << "an end that is not known";
}

TEST(Compare, ShareIsOfTheBoundOnTheResultsSide) {
  const Bf16 got[] = {{0x3F80}, {0x3F80}, {0x3F7F}};  // 1, 1, the step below 1
  const std::vector<Span> want = {{0.5, 0.25, 1.5}, {2, 0.5, 2}, {1, 1, 1.5}};
  EXPECT_EQ(compare({want[0]}, got, 1, 1).share, 0.5);
  const Worst worst = compare(want, got, 3, 1);
  EXPECT_EQ(worst.token, 2);
  EXPECT_GT(worst.share, 1);
  EXPECT_EQ(worst.num_outside, 1);
  EXPECT_EQ(worst.got, 0x1.FEp-1);
  EXPECT_EQ(compare(want, got, 2, 1).share, 1.0 / 1.5);
}

}  // namespace
}  // namespace octet::reference
