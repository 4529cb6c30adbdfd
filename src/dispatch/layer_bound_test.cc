// SPDX-License-Identifier: Apache-2.0
// Layers bound to prepared tensors.
#include <gtest/gtest.h>

#include "cpu/test_layer.h"
#include "dispatch/layer.h"
#include "dispatch/test_calls.h"
#include "layouts/prepared.h"

namespace octet::dispatch {
namespace {

constexpr int64_t kTokens = 4, kTopK = 3;

struct Prepared {
  static constexpr int64_t kExperts = 32, kHidden = 128, kIntermediate = 96, kPadded = 128;

  Prepared()
      : made({.activations = Activations::kMxfp8,
              .hidden = kHidden,
              .intermediate = kIntermediate,
              .experts = kExperts,
              .swiglu = {.limit = 3.0F}}) {
    const auto joined = [&](auto matrix, auto start, int64_t bytes) {
      std::vector<uint8_t> all;
      for (const layouts::ExpertWeights& e : made.experts) {
        const uint8_t* from = e.*matrix.*start;
        all.insert(all.end(), from, from + bytes);
      }
      return all;
    };
    using layouts::ExpertWeights;
    using layouts::WeightView;
    constexpr int64_t kCodes = kHidden * kIntermediate / 2, kScales = kHidden * kIntermediate / 32;
    const auto gate = joined(&ExpertWeights::gate, &WeightView::codes, kCodes);
    const auto up = joined(&ExpertWeights::up, &WeightView::codes, kCodes);
    const auto down = joined(&ExpertWeights::down, &WeightView::codes, kCodes);
    const auto gate_scale = joined(&ExpertWeights::gate, &WeightView::scales, kScales);
    const auto up_scale = joined(&ExpertWeights::up, &WeightView::scales, kScales);
    const auto down_scale = joined(&ExpertWeights::down, &WeightView::scales, kScales);
    InlineExecutor executor;
    layouts::prepare({.gate = gate.data(),
                      .up = up.data(),
                      .gate_scale = gate_scale.data(),
                      .up_scale = up_scale.data(),
                      .down = down.data(),
                      .down_scale = down_scale.data(),
                      .limit = 3.0F,
                      .experts = kExperts,
                      .hidden = kHidden,
                      .intermediate = kIntermediate,
                      .w13 = w13.as<uint8_t>(),
                      .w13_scale = w13_scale.as<uint8_t>(),
                      .w2 = w2.as<uint8_t>(),
                      .w2_scale = w2_scale.as<uint8_t>(),
                      .clamp = clamp.as<float>()},
                     executor);
  }
  PreparedBinding binding() const {
    return {.tensors = {w13.view(), w13_scale.view(), w2.view(), w2_scale.view(), clamp.view()},
            .intermediate = kIntermediate,
            .top_k = kTopK};
  }

  cpu::TestLayer made;
  Tensor w13{Dtype::kU8, {kExperts, 2 * kPadded, kHidden / 2}};
  Tensor w13_scale{Dtype::kU8, {kExperts, 2 * kPadded, kHidden / 32}};
  Tensor w2{Dtype::kU8, {kExperts, kHidden, kPadded / 2}};
  Tensor w2_scale{Dtype::kU8, {kExperts, kHidden, kPadded / 32}};
  Tensor clamp{Dtype::kF32, {kExperts}};
};

TEST(BoundLayer, GivesTheBytesOfTheLoadedOneAndSeesNewValues) {
  Prepared p;
  InlineExecutor one;
  const Layer bound = Layer::bind(p.binding(), {}).value();
  const auto load = [&] {
    return Layer::load({.spec = p.made.spec(), .experts = p.made.experts}, {}, one).value();
  };
  const std::vector<Bf16> x = p.made.random_x(kTokens);
  std::vector<int32_t> ids = p.made.random_ids(kTokens, kTopK);
  for (int32_t& id : ids) id %= Prepared::kExperts;
  const std::vector<float> weights(ids.size(), 0.25F);
  LayerCall call{.tokens = kTokens, .x = x.data()};
  call.given_ids = {ids.data()};
  call.given_weights = weights.data();
  call.given_top_k = kTopK;
  const Answer from_bound = run(bound, call, one);
  ASSERT_TRUE(from_bound.status.ok()) << from_bound.status.why;
  EXPECT_EQ(from_bound.y, run(load(), call, one).y);
  EXPECT_EQ(bound.resident_bytes(), 0) << "nothing is copied";

  for (layouts::ExpertWeights& e : p.made.experts) e.limit = 0.5F;
  std::fill_n(p.clamp.as<float>(), Prepared::kExperts, 0.5F);
  const Answer again = run(bound, call, one);
  EXPECT_EQ(again.y, run(load(), call, one).y);
  EXPECT_NE(again.y, from_bound.y);
}

TEST(BoundLayer, AcceptsOneToEightAlignedRows) {
  const Prepared p;
  const Layer bound = Layer::bind(p.binding(), {}).value();
  const Tensor x(Dtype::kBf16, {9, Prepared::kHidden});
  const auto why = [&](Dtype dtype, const Dims& dims, int64_t offset) {
    return bound.accepts({dtype, dims, x.data() + offset}).why;
  };
  EXPECT_EQ(why(Dtype::kBf16, {1, 128}, 0), "");
  EXPECT_EQ(why(Dtype::kBf16, {8, 128}, 16), "");
  EXPECT_EQ(why(Dtype::kBf16, {9, 128}, 0), "x: 9 rows, want 1..8");
  EXPECT_EQ(why(Dtype::kBf16, {0, 128}, 0), "x: 0 rows, want 1..8");
  EXPECT_EQ(why(Dtype::kBf16, {2, 64}, 0), "x: shape [2, 64], want [T, 128]");
  EXPECT_EQ(why(Dtype::kF32, {2, 128}, 0), "x: dtype F32, want BF16");
  EXPECT_EQ(why(Dtype::kBf16, {2, 128}, 2),
            "x: address is 2 past a multiple of 16, want a multiple");
}

TEST(BoundLayer, IsRefusedWhereCheckWeightsOrTheKernelRefuses) {
  Prepared p;
  EXPECT_EQ(Layer::bind(p.binding(), {.backend = Backend::kReference}).status().code,
            Code::kUnsupported);
  EXPECT_EQ(Layer::bind(p.binding(), {.backend = Backend::kCuda}).status().code,
            Code::kUnsupported);
  p.w2.as<uint8_t>()[Prepared::kPadded / 2 - 1] = 1;
  const auto padded = Layer::bind(p.binding(), {});
  EXPECT_EQ(padded.status().code, Code::kInvalidArgument);
  EXPECT_NE(padded.status().why.find("w2"), std::string::npos) << padded.status().why;
}

}  // namespace
}  // namespace octet::dispatch
