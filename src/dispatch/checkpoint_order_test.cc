// SPDX-License-Identifier: Apache-2.0
// What the prepared tensors and the panels of a layer are made back into is the layer, code by code.
#include "dispatch/checkpoint_order.h"

#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "cpu/test_layer.h"

namespace octet::dispatch {
namespace {

void expect_same(const layouts::WeightView& got, const layouts::WeightView& want) {
  ASSERT_EQ(got.rows, want.rows);
  ASSERT_EQ(got.cols, want.cols);
  for (int64_t r = 0; r < want.rows; ++r) {
    for (int64_t c = 0; c < want.cols; ++c) {
      ASSERT_EQ(got.code(r, c), want.code(r, c)) << r << ", " << c;
      ASSERT_EQ(got.scale(r, c), want.scale(r, c)) << r << ", " << c;
    }
  }
}
void expect_same(const layouts::ExpertWeights& got, const layouts::ExpertWeights& want) {
  expect_same(got.gate, want.gate);
  expect_same(got.up, want.up);
  expect_same(got.down, want.down);
  EXPECT_EQ(got.limit, want.limit);
}

TEST(CheckpointOrder, UnpackedIsTheLayer) {
  const cpu::TestLayer layer(
      {.hidden = 64, .intermediate = 40, .experts = 3, .start = 8, .swiglu = {.limit = 7.0F}});
  const layouts::PanelSizes sizes = layouts::panel_sizes(layer.experts[0]);
  std::vector<uint8_t> panels(static_cast<size_t>(3 * sizes.expert_bytes()));
  checkpoint::LayerTensors packed{
      .spec = layer.spec(),
      .experts = layer.experts,
      .packed = checkpoint::PackedPanels{panels.data(), sizes.expert_bytes(), sizes}};
  for (size_t e = 0; e < 3; ++e) {
    layouts::pack_expert(layer.experts[e],
                         panels.data() + static_cast<int64_t>(e) * sizes.expert_bytes());
    packed.experts[e].gate = packed.experts[e].up = packed.experts[e].down = {};
  }
  InlineExecutor one;
  const checkpoint::LayerTensors got = unpacked(packed, one);
  EXPECT_FALSE(got.packed.has_value());
  EXPECT_EQ(got.down_start(), 8);
  for (size_t e = 0; e < 3; ++e) expect_same(got.experts[e], layer.experts[e]);
}

TEST(CheckpointOrder, UnpreparedIsTheLayer) {
  constexpr int64_t kExperts = 32, kHidden = 128, kIntermediate = 96;
  std::mt19937 rng(1);
  const auto random = [&](int64_t rows, int64_t bytes) {
    Tensor t(Dtype::kU8, {kExperts, rows, bytes});
    for (size_t i = 0; i < t.num_bytes(); ++i) t.as<uint8_t>()[i] = static_cast<uint8_t>(rng());
    return t;
  };
  const Tensor gate = random(kIntermediate, kHidden / 2), up = random(kIntermediate, kHidden / 2),
               gate_scale = random(kIntermediate, kHidden / 32),
               up_scale = random(kIntermediate, kHidden / 32),
               down = random(kHidden, kIntermediate / 2),
               down_scale = random(kHidden, kIntermediate / 32);
  constexpr int64_t kPadded = layouts::padded_intermediate(kIntermediate);
  Tensor w13 = random(2 * kPadded, kHidden / 2), w13_scale = random(2 * kPadded, kHidden / 32),
         w2 = random(kHidden, kPadded / 2), w2_scale = random(kHidden, kPadded / 32),
         clamp(Dtype::kF32, {kExperts});
  InlineExecutor one;
  layouts::prepare({.gate = gate.as<uint8_t>(),
                    .up = up.as<uint8_t>(),
                    .gate_scale = gate_scale.as<uint8_t>(),
                    .up_scale = up_scale.as<uint8_t>(),
                    .down = down.as<uint8_t>(),
                    .down_scale = down_scale.as<uint8_t>(),
                    .limit = 7.0F,
                    .experts = kExperts,
                    .hidden = kHidden,
                    .intermediate = kIntermediate,
                    .w13 = w13.as<uint8_t>(),
                    .w13_scale = w13_scale.as<uint8_t>(),
                    .w2 = w2.as<uint8_t>(),
                    .w2_scale = w2_scale.as<uint8_t>(),
                    .clamp = clamp.as<float>()},
                   one);
  LayerSpec spec;
  spec.hidden = kHidden;
  spec.intermediate = kIntermediate;
  spec.experts = spec.local_experts = kExperts;
  const auto view = [](const Tensor& codes, const Tensor& scales, int64_t e, int64_t cols) {
    const Dims &d = codes.dims(), &s = scales.dims();
    return layouts::WeightView{.codes = codes.as<uint8_t>() + e * d[1] * d[2],
                               .scales = scales.as<uint8_t>() + e * s[1] * s[2],
                               .code_stride = d[2],
                               .scale_stride = s[2],
                               .rows = d[1],
                               .cols = cols};
  };
  const layouts::PreparedTensors tensors{w13.view(), w13_scale.view(), w2.view(), w2_scale.view(),
                                         clamp.view()};
  ASSERT_TRUE(layouts::check_weights(tensors, 6, kIntermediate).ok());
  const checkpoint::LayerTensors got = unprepared(tensors, spec, one);
  for (int64_t e = 0; e < kExperts; ++e) {
    layouts::ExpertWeights want;
    want.gate = view(gate, gate_scale, e, kHidden);
    want.up = view(up, up_scale, e, kHidden);
    want.down = view(down, down_scale, e, kIntermediate);
    want.limit = 7.0F;
    expect_same(got.experts[static_cast<size_t>(e)], want);
  }
  // A width that is no multiple of a scale block: the columns behind it are padding.
  spec.intermediate = 80;
  EXPECT_EQ(unprepared(tensors, spec, one).experts[3].down.cols, 80);
}

}  // namespace
}  // namespace octet::dispatch
