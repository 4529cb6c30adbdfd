// SPDX-License-Identifier: Apache-2.0
#include "dispatch/layer.h"

#include <cmath>
#include <gtest/gtest.h>
#include <thread>

#include "cpu/ops.h"
#include "cpu/test_layer.h"
#include "cpu/thread_pool.h"
#include "dispatch/test_calls.h"

namespace octet::dispatch {
namespace {

constexpr int64_t kTokens = 4, kTopK = 3;

// A random layer with a gate of its own.
class Fixture {
 public:
  explicit Fixture(RouterKind router = RouterKind::kDsv4, Activations act = Activations::kBf16)
      : made({.activations = act, .hidden = 64, .intermediate = 48, .experts = 5}), rng_(7) {
    spec = made.spec();
    spec.router = {.kind = router, .top_k = kTopK, .scale = 1.5F};
    gate.weight = f32({spec.experts, spec.hidden});
    gate.logit_bias = f32({spec.experts});
    gate.bias = f32({spec.experts});
    x = made.random_x(kTokens);
  }
  TensorView f32(const Dims& dims) {
    std::normal_distribution<float> normal;
    Tensor& t = store_.emplace_back(Dtype::kF32, dims);
    std::generate_n(t.as<float>(), num_elems(dims), [&] { return normal(rng_); });
    return t.view();
  }
  // Ids of `vocab` token ids, distinct in a row.
  TensorView table(int64_t vocab) {
    Tensor& t = store_.emplace_back(Dtype::kI32, Dims{vocab, kTopK});
    const std::vector<int32_t> ids = made.random_ids(vocab, kTopK);
    std::copy(ids.begin(), ids.end(), t.as<int32_t>());
    return t.view();
  }
  Layer load(const LayerOptions& options = {}) const {
    InlineExecutor one;
    return Layer::load({.spec = spec, .gate = gate, .experts = made.experts}, options, one).value();
  }
  LayerCall call() const { return {.tokens = std::ssize(x) / spec.hidden, .x = x.data()}; }

  cpu::TestLayer made;
  LayerSpec spec;
  checkpoint::Gate gate;
  std::vector<Bf16> x;

 private:
  std::mt19937 rng_;
  std::vector<Tensor> store_;
};

TEST(Layer, GivesTheSameFromItsGateFromThoseLogitsAndFromThoseIds) {
  for (const RouterKind kind : {RouterKind::kDsv4, RouterKind::kSoftmax, RouterKind::kFlint}) {
    const Fixture f(kind);
    const Layer layer = f.load();
    cpu::ThreadPool pool(2);
    const Answer own = run(layer, f.call(), pool);
    ASSERT_TRUE(own.status.ok()) << own.status.why;
    LayerCall with_logits = f.call();
    with_logits.logits = own.logits.data();
    const Answer from_logits = run(layer, with_logits, pool);
    EXPECT_EQ(from_logits.ids, own.ids) << name_of(kind);
    EXPECT_EQ(from_logits.weights, own.weights);
    EXPECT_EQ(from_logits.y, own.y);
    EXPECT_EQ(from_logits.logits, own.logits);
    LayerCall with_ids = f.call();
    with_ids.given_ids = {own.ids.data()};
    with_ids.given_weights = own.weights.data();
    const Answer from_ids = run(layer, with_ids, pool);
    EXPECT_EQ(from_ids.ids, own.ids);
    EXPECT_EQ(from_ids.weights, own.weights);
    EXPECT_EQ(from_ids.y, own.y);
    EXPECT_EQ(from_ids.permuted, own.permuted);
  }
}

TEST(Layer, GateLogitsAreTheDotPlusTheGatesBias) {
  const Fixture f;
  InlineExecutor one;
  const Answer a = run(f.load(), f.call(), one);
  ASSERT_TRUE(a.status.ok()) << a.status.why;
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t e = 0; e < f.spec.experts; ++e) {
      double sum = static_cast<double>(f.gate.logit_bias.as<float>()[e]);
      double mass = std::fabs(sum);
      for (int64_t i = 0; i < f.spec.hidden; ++i) {
        const double p = static_cast<double>(formats::bf16_to_f32(
                             f.x[static_cast<size_t>(t * f.spec.hidden + i)])) *
                         static_cast<double>(f.gate.weight.as<float>()[e * f.spec.hidden + i]);
        sum += p;
        mass += std::fabs(p);
      }
      const double got = static_cast<double>(a.logits[static_cast<size_t>(t * f.spec.experts + e)]);
      EXPECT_NEAR(got, sum, mass * 0x1p-24 * 16) << t << " " << e;
    }
  }
}

TEST(Layer, UnfinalizedRowsFinalizeToY) {
  Fixture f(RouterKind::kSoftmax, Activations::kMxfp8);
  const std::vector<Bf16> shared = f.made.random_x(kTokens);
  const Layer layer = f.load();
  InlineExecutor one;
  LayerCall call = f.call();
  call.shared = shared.data();
  const Answer a = run(layer, call, one);
  ASSERT_TRUE(a.status.ok()) << a.status.why;
  std::vector<Bf16> y(a.y.size());
  cpu::finalize({.rows = a.rows.data(),
                 .topk_weights = a.weights.data(),
                 .permuted = a.permuted.data(),
                 .shared = shared.data(),
                 .tokens = kTokens,
                 .top_k = kTopK,
                 .hidden = f.spec.hidden,
                 .y = y.data()},
                one);
  EXPECT_EQ(a.y, y);
  EXPECT_NE(a.y, run(layer, f.call(), one).y) << "the shared rows count";
}

TEST(Layer, KeepsGivenIdsAndNeverTakesOneForAnother) {
  const Fixture f;
  const Layer layer = f.load();
  InlineExecutor one;
  const std::vector<int64_t> ids = {0,   -5, (int64_t{1} << 32) + 1, -(int64_t{1} << 40), 2,
                                    999, 2,  int64_t{1} << 31};
  const std::vector<float> weights(ids.size(), 0.5F);
  LayerCall call = f.call();
  call.tokens = 4;
  call.given_ids = {ids.data(), true};
  call.given_weights = weights.data();
  call.given_top_k = 2;
  const Answer a = run(layer, call, one);
  ASSERT_TRUE(a.status.ok()) << a.status.why;
  EXPECT_EQ(a.ids, (std::vector<int32_t>{0, -5, -1, -1, 2, 999, 2, -1}));
  EXPECT_EQ(std::count(a.permuted.begin(), a.permuted.end(), -1), 5);
  EXPECT_TRUE(std::all_of(a.y.begin() + 64, a.y.begin() + 128, [](Bf16 v) { return v.bits == 0; }))
      << "a row without an expert of this rank is 0";
}

TEST(Layer, HashLayersGoByTheTableAndImagesByTheirBias) {
  Fixture f(RouterKind::kHash);
  f.spec.router.image_sentinel_lo = 100;
  f.gate.bias = {};
  f.gate.table = f.table(50);
  f.gate.bias_vl = f.f32({f.spec.experts});
  const Layer layer = f.load();
  InlineExecutor one;
  const std::vector<int64_t> tokens = {3, 49, 104, 0};
  LayerCall call = f.call();
  call.input_ids = {tokens.data(), true};
  const Answer a = run(layer, call, one);
  ASSERT_TRUE(a.status.ok()) << a.status.why;
  const int32_t* table = f.gate.table.as<int32_t>();
  for (const size_t t : {0U, 1U, 3U}) {
    EXPECT_TRUE(std::equal(table + tokens[t] * kTopK, table + (tokens[t] + 1) * kTopK,
                           a.ids.begin() + static_cast<int64_t>(t) * kTopK))
        << t;
  }
  // The image row is what dsv4 chooses with bias_vl as its bias.
  Fixture plain;
  plain.gate.bias = f.gate.bias_vl;
  LayerCall dsv4 = f.call();
  dsv4.logits = a.logits.data();
  const Answer b = run(plain.load(), dsv4, one);
  EXPECT_TRUE(
      std::equal(b.ids.begin() + 2 * kTopK, b.ids.begin() + 3 * kTopK, a.ids.begin() + 2 * kTopK));

  const Answer without = run(layer, f.call(), one);
  EXPECT_EQ(without.status.code, Code::kInvalidArgument);
  EXPECT_NE(without.status.why.find("input_ids"), std::string::npos) << without.status.why;
  EXPECT_TRUE(without.untouched());
  const std::vector<int64_t> beyond = {3, 50, 104, 0};
  call.input_ids = {beyond.data(), true};
  const Answer outside = run(layer, call, one);
  EXPECT_NE(outside.status.why.find("input_ids"), std::string::npos) << outside.status.why;
  EXPECT_TRUE(outside.untouched());
}

TEST(Layer, ImageRowsNeedInputIdsOnlyWhereImagesAreOn) {
  Fixture f;
  f.gate.bias_vl = f.f32({f.spec.experts});
  InlineExecutor one;
  EXPECT_TRUE(run(f.load(), f.call(), one).status.ok()) << "no sentinel: no row is an image";
  f.spec.router.image_sentinel_lo = 100;
  const Answer refused = run(f.load(), f.call(), one);
  EXPECT_NE(refused.status.why.find("input_ids"), std::string::npos) << refused.status.why;
}

TEST(Layer, RefusesACallBeforeItWritesAnything) {
  const Fixture f;
  const Layer layer = f.load();
  InlineExecutor one;
  std::vector<float> weights(kTokens * kTopK);
  const std::vector<int32_t> ids(kTokens * kTopK);
  const auto expect = [&](LayerCall call, const char* word) {
    const Answer a = run(layer, call, one);
    EXPECT_EQ(a.status.code, Code::kInvalidArgument) << word;
    EXPECT_NE(a.status.why.find(word), std::string::npos) << a.status.why;
    EXPECT_TRUE(a.untouched()) << word;
  };
  LayerCall call = f.call();
  call.x = nullptr;
  expect(call, "x: missing");
  call = f.call();
  call.given_ids = {ids.data()};
  expect(call, "topk_weights: missing");
  call = f.call();
  call.given_weights = weights.data();
  expect(call, "topk_ids: missing");
  call = f.call();
  call.given_top_k = kTopK + 1;
  expect(call, "top_k 4 without topk_ids, want the layer's 3, or 0");
  call = f.call();
  std::vector<uint8_t> trace(1);
  call.trace.h_values = trace.data();
  expect(call, "h_values");

  call = f.call();
  std::vector<Bf16> y(f.x.size(), Bf16{0xFFFF});
  call.y = y.data();
  Tensor workspace(Dtype::kU8, {100});
  const int64_t want = layer.workspace_bytes(kTokens, kTopK, 1);
  const Status small = layer.run(call, workspace.data(), 100, one);
  EXPECT_EQ(small.why, "workspace 100 bytes, want " + std::to_string(want));
  EXPECT_FALSE(layer.run(call, nullptr, want, one).ok());
  EXPECT_FALSE(layer.run(call, workspace.data() + 1, want, one).ok());
  EXPECT_EQ(y[0].bits, 0xFFFF);
  call.tokens = -1;
  EXPECT_NE(layer.run(call, workspace.data(), 100, one).why.find("tokens -1"), std::string::npos);
  call.tokens = int64_t{1} << 40;
  EXPECT_NE(layer.run(call, workspace.data(), 100, one).why.find("tokens 1099511627776"),
            std::string::npos);
}

TEST(Layer, AcceptsAnyRowsOfItsWidth) {
  const Fixture f;
  const Tensor x(Dtype::kBf16, {100, 64});
  EXPECT_TRUE(f.load().accepts(x.view()).ok());
  EXPECT_TRUE(f.load().accepts({Dtype::kBf16, {0, 64}, nullptr}).ok());
  EXPECT_EQ(f.load().accepts({Dtype::kBf16, {64}, x.data()}).why, "x: shape [64], want [T, 64]");
}

TEST(Layer, TakesNoRows) {
  const Fixture f;
  InlineExecutor one;
  EXPECT_TRUE(f.load().run({.tokens = 0}, nullptr, 0, one).ok());
}

TEST(Layer, WithoutAGateWantsLogitsOrIds) {
  Fixture f;
  f.gate = {};
  InlineExecutor one;
  const Answer a = run(f.load(), f.call(), one);
  EXPECT_NE(a.status.why.find("logits: missing"), std::string::npos) << a.status.why;
}

TEST(Layer, RunsFromSeveralThreadsAtOnce) {
  const Fixture f(RouterKind::kSoftmax, Activations::kMxfp8);
  const Layer layer = f.load();
  InlineExecutor one;
  const Answer want = run(layer, f.call(), one);
  ASSERT_TRUE(want.status.ok()) << want.status.why;
  cpu::ThreadPool shared_pool(2);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (size_t i = 0; i < wrong.size(); ++i) {
    threads.emplace_back([&, i] {
      InlineExecutor mine;
      Executor& executor = i % 2 == 0 ? static_cast<Executor&>(shared_pool) : mine;
      for (int n = 0; n < 20; ++n) {
        const Answer got = run(layer, f.call(), executor);
        wrong[i] += got.y == want.y && got.ids == want.ids ? 0 : 1;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST(Layer, ReferenceKernelAnswersInsideItsOwnIntervalAndHasNoRows) {
  const Fixture f;
  const Layer layer = f.load({.backend = Backend::kReference});
  InlineExecutor one;
  const Answer a = run(layer, f.call(), one);
  ASSERT_TRUE(a.status.ok()) << a.status.why;
  LayerCall call = f.call();
  std::vector<Bf16> rows(static_cast<size_t>(kTokens * kTopK * f.spec.hidden));
  std::vector<int32_t> permuted(static_cast<size_t>(kTokens * kTopK));
  call.y = rows.data();
  call.rows = rows.data();
  call.permuted = permuted.data();
  Tensor workspace(Dtype::kU8, {layer.workspace_bytes(kTokens, kTopK, 1)});
  EXPECT_EQ(layer.run(call, workspace.data(), std::ssize(rows) * 1000, one).code,
            Code::kUnsupported);
}

TEST(Layer, TheReferenceMakesItsLogitsInFloat64) {
  const Fixture f;
  InlineExecutor one;
  const Answer a = run(f.load({.backend = Backend::kReference}), f.call(), one);
  ASSERT_TRUE(a.status.ok()) << a.status.why;
  for (int64_t i = 0; i < kTokens * f.spec.experts; ++i) {
    const int64_t e = i % f.spec.experts;
    double sum = 0;
    for (int64_t c = 0; c < f.spec.hidden; ++c) {
      const auto at = static_cast<size_t>(i / f.spec.experts * f.spec.hidden + c);
      sum += static_cast<double>(formats::bf16_to_f32(f.x[at])) *
             static_cast<double>(f.gate.weight.as<float>()[e * f.spec.hidden + c]);
    }
    sum += static_cast<double>(f.gate.logit_bias.as<float>()[e]);
    EXPECT_EQ(a.logits[static_cast<size_t>(i)], static_cast<float>(sum)) << i;
  }
}

TEST(Layer, IsRefusedWhenItIsLoadedIfItsCallsWillWantRowsOfTheReference) {
  const Fixture f;
  InlineExecutor one;
  const checkpoint::LayerTensors tensors{.spec = f.spec, .gate = f.gate, .experts = f.made.experts};
  const Status s =
      Layer::load(tensors, {.backend = Backend::kReference, .rows = true}, one).status();
  EXPECT_EQ(s.code, Code::kUnsupported);
  EXPECT_NE(s.why.find("has y only"), std::string::npos) << s.why;
  EXPECT_TRUE(Layer::load(tensors, {.rows = true}, one).ok());
}

TEST(Layer, CountsBytesOfDistinctLocalExperts) {
  Fixture f;
  const Layer layer = f.load();
  // The 48 columns of `down` take two scales a row: a block that is cut counts whole.
  const int64_t expert = 3 * 64 * 48 / 2 + 2 * 48 * 64 / 32 + 64 * 2;
  const std::vector<int32_t> ids = {0, 1, 1, 0, -1, 7};  // 7 is another rank's
  EXPECT_EQ(layer.bytes_read(ids.data(), std::ssize(ids)), 2 * expert);
  EXPECT_EQ(layer.weight_bytes(), 5 * expert);
  EXPECT_GE(layer.resident_bytes(), layer.weight_bytes());
}

TEST(Layer, ReadsPackedPanelsInPlace) {
  const Fixture f;
  const layouts::PanelSizes sizes = layouts::panel_sizes(f.made.experts[0]);
  Tensor panels(Dtype::kU8, {sizes.expert_bytes() * 5});
  for (int64_t e = 0; e < 5; ++e) {
    layouts::pack_expert(f.made.experts[static_cast<size_t>(e)],
                         panels.as<uint8_t>() + e * sizes.expert_bytes());
  }
  checkpoint::LayerTensors tensors{
      .spec = f.spec,
      .gate = f.gate,
      .experts = f.made.experts,
      .packed = checkpoint::PackedPanels{panels.as<uint8_t>(), sizes.expert_bytes(), sizes}};
  for (layouts::ExpertWeights& e : tensors.experts) e.gate = e.up = e.down = {};
  InlineExecutor one;
  auto packed = Layer::load(tensors, {}, one);
  ASSERT_TRUE(packed.ok()) << packed.status().why;
  EXPECT_EQ(run(*packed, f.call(), one).y, run(f.load(), f.call(), one).y);
  EXPECT_LT(packed->resident_bytes(), packed->weight_bytes());
  EXPECT_EQ(Layer::load(tensors, {.backend = Backend::kReference}, one).status().code,
            Code::kUnsupported);
  tensors.packed->base += 16;
  EXPECT_EQ(Layer::load(tensors, {}, one).status().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace octet::dispatch
