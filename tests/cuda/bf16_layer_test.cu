// SPDX-License-Identifier: Apache-2.0
// Needs an SM 9.0 device. A layer with BF16 activations on Hopper's kernels as a caller has it: from logits, from ids, with h and rows, in
// chunks of 8: the same bytes, y and h inside the reference's intervals.
#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>

#include "cpu/test_layer.h"
#include "dispatch/layer.h"
#include "on_device.h"
#include "reference/layer.h"

namespace octet::sm90 {
namespace {

using cuda::OnDevice;

struct Shape {
  int64_t hidden = 320, intermediate = 96, local_experts = 5, first_expert = 2, top_k = 3;
};

struct Output {
  std::vector<Bf16> y, rows, h;
  std::vector<int32_t> ids, permuted;
  std::vector<float> weights;
};
struct Wanted {
  bool from_ids = false, rows = false;
};

class Layer {
 public:
  explicit Layer(WeightFormat weights, const Shape& shape = {}, const std::string& kernel = {})
      : shape_(shape),
        made_({.weights = weights,
               .hidden = shape.hidden,
               .intermediate = shape.intermediate,
               .experts = shape.local_experts,
               .first_expert = shape.first_expert,
               .biases = true,
               .swiglu = {.limit = 10.0F},
               .seed = 3}) {
    std::normal_distribution<float> normal(0.0F, 0.5F);
    tensors_.spec = made_.spec();
    tensors_.spec.router.top_k = shape.top_k;
    tensors_.experts = made_.experts;
    for (int64_t e = 0; e < tensors_.spec.experts; ++e) bias_.push_back(normal(rng_));
    tensors_.gate.bias = TensorView{
        Dtype::kF32, {tensors_.spec.experts}, reinterpret_cast<const std::byte*>(bias_.data())};
    InlineExecutor one;
    auto loaded =
        dispatch::Layer::load(tensors_, {.backend = Backend::kCuda, .kernel = kernel}, one);
    if (!loaded.ok()) throw std::runtime_error(loaded.status().why);
    layer_ = std::move(loaded).value();
  }
  const dispatch::Layer& layer() const { return layer_; }

  std::vector<Bf16> random_x(int64_t tokens) { return made_.random_x(tokens); }
  std::vector<float> random_logits(int64_t tokens) {
    std::normal_distribution<float> normal(0.0F, 2.0F);
    std::vector<float> logits;
    for (int64_t i = 0; i < tokens * tensors_.spec.experts; ++i) logits.push_back(normal(rng_));
    return logits;
  }

  int64_t workspace_bytes(int64_t tokens) const {
    const auto bytes = layer_.device_workspace_bytes(tokens, shape_.top_k);
    EXPECT_TRUE(bytes.ok()) << bytes.status().why;
    return *bytes;
  }
  // In a workspace of its own of 0xFF.
  Output run(const std::vector<Bf16>& x, const std::vector<float>& logits, const Wanted& wanted,
             const Output* given = nullptr) const {
    const int64_t bytes = workspace_bytes(std::ssize(x) / shape_.hidden);
    return run_in(OnDevice<uint8_t>(std::vector<uint8_t>(static_cast<size_t>(bytes), 0xFF)), bytes,
                  x, logits, wanted, given);
  }
  // Every output was 0xFF before. `given`: whose ids and weights.
  Output run_in(const OnDevice<uint8_t>& workspace, int64_t workspace_bytes,
                const std::vector<Bf16>& x, const std::vector<float>& logits, const Wanted& wanted,
                const Output* given = nullptr) const {
    const int64_t tokens = std::ssize(x) / shape_.hidden, slots = tokens * shape_.top_k;
    const auto poison = [](auto& v, int64_t count) {
      v.resize(static_cast<size_t>(count));
      std::memset(static_cast<void*>(v.data()), 0xFF, v.size() * sizeof(v[0]));
    };
    Output o;
    poison(o.y, tokens * shape_.hidden);
    poison(o.rows, slots * shape_.hidden);
    poison(o.h, slots * shape_.intermediate);
    poison(o.ids, slots);
    poison(o.permuted, slots);
    poison(o.weights, slots);
    const OnDevice<Bf16> d_x(x), y(o.y), rows(o.rows), h(o.h);
    const OnDevice<float> d_logits(logits), weights(given != nullptr ? given->weights : o.weights);
    const OnDevice<int32_t> ids(given != nullptr ? given->ids : o.ids), permuted(o.permuted);
    dispatch::LayerCall call{.tokens = tokens, .x = d_x.get()};
    if (wanted.from_ids) {
      call.given_ids = {ids.get(), false};
      call.given_weights = weights.get();
    } else {
      call.logits = d_logits.get();
      call.topk_ids = ids.get();
      call.topk_weights = weights.get();
    }
    call.y = y.get();
    if (wanted.rows) {
      call.rows = rows.get();
      call.permuted = permuted.get();
      call.trace = {nullptr, nullptr, nullptr, nullptr, h.get()};
    }
    const Status status = layer_.enqueue(call, workspace.get(), workspace_bytes, nullptr);
    EXPECT_TRUE(status.ok()) << status.why;
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << cudaGetErrorString(cudaGetLastError());
    return {y.back(), rows.back(), h.back(), ids.back(), permuted.back(), weights.back()};
  }

  void expect_right(const std::vector<Bf16>& x, const Output& o) const {
    reference::MadeHidden made{.permuted = o.permuted.data(), .rounded = o.h.data()};
    reference::HiddenVerdict h;
    const int64_t tokens = std::ssize(x) / shape_.hidden;
    const auto want = reference::layer(
        {.spec = tensors_.spec,
         .tokens = tokens,
         .top_k = shape_.top_k,
         .x = x.data(),
         .topk_ids = o.ids.data(),
         .topk_weights = o.weights.data(),
         .shared = nullptr,
         .expert = [&](int64_t e) { return made_.experts[static_cast<size_t>(e)]; },
         .made = &made,
         .sums = dispatch::sums_of(*layer_.selection().kernel)},
        {}, &h);
    EXPECT_GT(h.num_elems, 0);
    EXPECT_EQ(h.num_outside, 0) << "of " << h.num_elems;
    EXPECT_EQ(reference::compare(want, o.y.data(), tokens, shape_.hidden).num_outside, 0);
  }

 private:
  Shape shape_;
  std::mt19937 rng_{7};
  cpu::TestLayer made_;
  std::vector<float> bias_;
  checkpoint::LayerTensors tensors_;
  dispatch::Layer layer_;
};

TEST(Bf16Layer, EveryWayToACallGivesTheReferencesBytes) {
  for (const WeightFormat weights : {WeightFormat::kMxfp4, WeightFormat::kNvfp4}) {
    Layer layer(weights);
    EXPECT_EQ(layer.layer().selection().kernel->name, weights == WeightFormat::kMxfp4
                                                          ? "experts_bf16_mxfp4_sm90"
                                                          : "experts_bf16_nvfp4_sm90");
    for (const int64_t tokens : {3, 11}) {  // one chunk, two
      const auto x = layer.random_x(tokens);
      const auto logits = layer.random_logits(tokens);
      const Output plain = layer.run(x, logits, {});
      const Output traced = layer.run(x, logits, {.rows = true});
      const Output of_ids = layer.run(x, logits, {.from_ids = true, .rows = true}, &plain);
      EXPECT_EQ(traced.y, plain.y);
      EXPECT_EQ(traced.ids, plain.ids);
      EXPECT_EQ(of_ids.y, plain.y);
      EXPECT_EQ(of_ids.rows, traced.rows);
      EXPECT_EQ(of_ids.h, traced.h);
      EXPECT_EQ(of_ids.permuted, traced.permuted);
      layer.expect_right(x, traced);
    }
  }
}

// However many there are: a kernel of another order of sums for calls of many rows would be faster there, and give a row other bytes.
TEST(Bf16Layer, RowsHaveTheSameBytesFewAndAmongMany) {
  constexpr int64_t kTokens = 52, kFew = 4;
  // Several stages of both matrices. Binary32 sums that differ show in one BF16 number of some ten thousand: all are compared.
  Layer layer(WeightFormat::kMxfp4, {.hidden = 1440, .intermediate = 352});
  const auto x = layer.random_x(kTokens);
  const auto logits = layer.random_logits(kTokens);
  const Output all = layer.run(x, logits, {.rows = true});
  for (int64_t first = 0; first < kTokens; first += kFew) {
    const auto part = [&](const auto& v) {
      const int64_t width = std::ssize(v) / kTokens;
      return std::vector(v.begin() + first * width, v.begin() + (first + kFew) * width);
    };
    const Output few = layer.run(part(x), part(logits), {.rows = true});
    EXPECT_EQ(few.y, part(all.y)) << "rows from " << first;
    EXPECT_EQ(few.rows, part(all.rows)) << "rows from " << first;
    EXPECT_EQ(few.h, part(all.h)) << "rows from " << first;
  }
}

// In turn with a layer of SM80's kernel, whose rows have no expert here, so that it writes a few words of the workspace only.
TEST(Bf16Layer, SharesAWorkspaceWithAnotherKernelsLayer) {
  Layer own(WeightFormat::kMxfp4), other(WeightFormat::kMxfp4, {}, "experts_bf16_mxfp4_sm80");
  const auto x = own.random_x(1);
  const auto logits = own.random_logits(1);
  const Output given = own.run(x, logits, {});
  Output foreign = given;
  for (int32_t& id : foreign.ids) id = -1;
  const int64_t bytes = std::max(own.workspace_bytes(1), other.workspace_bytes(1));
  const OnDevice<uint8_t> workspace(std::vector<uint8_t>(static_cast<size_t>(bytes), 0xFF));
  for (int turn = 0; turn < 4; ++turn) {  // either half, and again
    EXPECT_EQ(own.run_in(workspace, bytes, x, logits, {.from_ids = true}, &given).y, given.y)
        << "turn " << turn;
    const Output nothing = other.run_in(workspace, bytes, x, logits, {.from_ids = true}, &foreign);
    EXPECT_EQ(nothing.y, std::vector<Bf16>(nothing.y.size(), Bf16{0}));
  }
}

}  // namespace
}  // namespace octet::sm90
