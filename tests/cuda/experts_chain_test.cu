// SPDX-License-Identifier: Apache-2.0
// Needs an SM 9.0 device. Launches of the experts in line, each behind the kernels whose output it reads, on few CTAs, so that rings come
// round: h and y against float64 with the room of semantics.md section 12. Mutants of the kernels are tried on it (tests/mutation/ptx).
//
//   slow ──► rank_sum ──► rank_sum ──► experts ──► experts ──► read_back    from logits, the workspace garbage, then clear
//            logits       x            y           the same y  h
//   slow ──► rank_sum ──► quantize ──► route ──► make_ready ──► experts ──► read_back    of another layer, from ids; for BF16
//            y to x                    record                                            experts twice, no quantize or make_ready
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "cpu/test_layer.h"
#include "cuda/front.h"
#include "cuda/rank_sum.h"
#include "on_device.h"
#include "reference/layer.h"
#include "routing/record.h"
#include "routing/topk.h"
#include "sm90/experts_mxfp8.h"
#include "sm90/launch_word.cuh"
#include "sm90/read_back.h"

namespace octet::sm90 {
namespace {

using cuda::OnDevice;

size_t size_of(int64_t n) { return static_cast<size_t>(n); }
void expect_ok(const Status& status) { ASSERT_TRUE(status.ok()) << status.why; }

// Bytes that are NaN, and no code, id or word that anybody wrote.
template <class T>
std::vector<T> unset(int64_t count) {
  std::vector<T> v(size_of(count));
  std::memset(static_cast<void*>(v.data()), 0xA5, v.size() * sizeof(T));
  return v;
}
template <class T>
void expect_bytes(const std::vector<T>& a, const std::vector<T>& b, const char* what) {
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_EQ(std::memcmp(&a[i], &b[i], sizeof(T)), 0) << what << ", element " << i;
}

struct Shape {
  Activations activations;
  WeightFormat weights;
  int64_t hidden, intermediate, experts, top_k, tokens;
  bool biases;
};

// A sum over so many ranks takes longer than the warm-ups of the kernels that begin behind it.
class Slow {
 public:
  void launch() const {
    expect_ok(cuda::launch_rank_sum({of_.get(), kRanks, kCount, sum_.get()}, nullptr));
  }

 private:
  static constexpr int64_t kRanks = 1000, kCount = 8;
  OnDevice<Bf16> of_{std::vector<Bf16>(size_of(kRanks * kCount))}, sum_{unset<Bf16>(kCount)};
};

// A layer and what calls of it write.
class Chained {
 public:
  explicit Chained(const Shape& of)
      : shape(of),
        made_({.weights = of.weights,
               .activations = of.activations,
               .hidden = of.hidden,
               .intermediate = of.intermediate,
               .experts = of.experts,
               .first_expert = 1,
               .biases = of.biases,
               .swiglu = {.limit = 10.0F},
               .seed = 5}),
        weights_(packed()),
        gate_alpha_(of_experts(&layouts::ExpertWeights::gate_alpha)),
        up_alpha_(of_experts(&layouts::ExpertWeights::up_alpha)),
        down_alpha_(of_experts(&layouts::ExpertWeights::down_alpha)),
        limit_(of_experts(&layouts::ExpertWeights::limit)),
        gate_bias_(biases(&layouts::ExpertWeights::gate_bias, of.intermediate)),
        up_bias_(biases(&layouts::ExpertWeights::up_bias, of.intermediate)),
        down_bias_(biases(&layouts::ExpertWeights::down_bias, of.hidden)),
        x(unset<Bf16>(of.tokens * of.hidden)),
        codes(unset<uint8_t>(of.tokens * of.hidden)),
        scales(unset<uint8_t>(of.tokens * of.hidden / kMxBlock)),
        record(unset<int32_t>(routing::record_words(most_tiles()))),
        permuted(unset<int32_t>(slots())),
        slot_row(unset<int32_t>(slots())),
        workspace(unset<uint8_t>(experts_workspace(plain()).bytes)),
        h_values(unset<uint8_t>(slots() * of.intermediate)),
        h_scales(unset<uint8_t>(slots() * of.intermediate / kMxBlock)),
        h(unset<Bf16>(slots() * of.intermediate)) {
    expect_ok(prepare_experts(of.activations, of.weights));
  }

  const LayerSpec& spec() const { return made_.spec(); }
  int64_t slots() const { return shape.tokens * shape.top_k; }
  int64_t most_tiles() const { return routing::max_ctas(shape.tokens, shape.top_k, shape.experts); }
  bool is_mxfp8() const { return shape.activations == Activations::kMxfp8; }
  cuda::ExpertGemmArgs plain() const {
    cuda::ExpertGemmArgs a;
    a.weights = {.data = weights_.get(),
                 .sizes = layouts::stream_sizes(made_.experts[0]),
                 .order = experts_order(shape.activations),
                 .experts = shape.experts,
                 .gate_alpha = is_mxfp8() ? nullptr : gate_alpha_.get(),
                 .up_alpha = is_mxfp8() ? nullptr : up_alpha_.get(),
                 .down_alpha = is_mxfp8() ? nullptr : down_alpha_.get(),
                 .limit = limit_.get()};
    if (shape.biases) {
      a.weights.gate_bias = gate_bias_.get();
      a.weights.up_bias = up_bias_.get();
      a.weights.down_bias = down_bias_.get();
    }
    a.tokens = shape.tokens;
    a.top_k = shape.top_k;
    a.hidden = shape.hidden;
    a.intermediate = shape.intermediate;
    a.activations = shape.activations;
    return a;
  }
  // All but the front.
  ExpertsArgs args(const float* topk_weights, Bf16* y) const {
    ExpertsArgs all{.gemm = plain(), .topk_weights = topk_weights, .y = y};
    cuda::ExpertGemmArgs& g = all.gemm;
    g.x = x.get();
    g.x_quant = codes.get();
    g.x_scale = scales.get();
    g.record = record.get();
    g.permuted = permuted.get();
    g.workspace = workspace.get();
    g.workspace_bytes = experts_workspace(g).bytes;
    g.slot_row = slot_row.get();
    return all;
  }
  void read_back(const ExpertsArgs& all) const {
    ReadBackArgs back{.experts = &all};
    if (is_mxfp8()) {
      back.h_values = h_values.get();
      back.h_scales = h_scales.get();
    } else {
      back.h = h.get();
    }
    expect_ok(launch_read_back(back, nullptr));
  }
  void expect_right(const std::vector<int32_t>& ids, const std::vector<float>& weights,
                    const std::vector<Bf16>& y) const {
    const auto of_slot = slot_row.back();
    const auto values = h_values.back(), their_scales = h_scales.back();
    const auto rounded = h.back(), from = x.back();
    reference::MadeHidden hidden{.permuted = of_slot.data()};
    if (is_mxfp8()) {
      hidden.values = values.data();
      hidden.scales = their_scales.data();
    } else {
      hidden.rounded = rounded.data();
    }
    reference::HiddenVerdict verdict;
    const auto want = reference::layer(
        {.spec = spec(),
         .tokens = shape.tokens,
         .top_k = shape.top_k,
         .x = from.data(),
         .topk_ids = ids.data(),
         .topk_weights = weights.data(),
         .shared = nullptr,
         .expert = [&](int64_t e) { return made_.experts[size_of(e)]; },
         .made = &hidden,
         .sums = is_mxfp8() ? reference::Sums::kFp8Unit : reference::Sums::kBinary32},
        {}, &verdict);
    EXPECT_GT(verdict.num_elems, 0);
    EXPECT_EQ(verdict.num_outside, 0)
        << "h: slot " << verdict.slot << ", column " << verdict.column << ": got " << verdict.got
        << ", want " << verdict.want.lo << " ... " << verdict.want.hi;
    const reference::Worst worst = reference::compare(want, y.data(), shape.tokens, shape.hidden);
    EXPECT_EQ(worst.num_outside, 0)
        << "y[" << worst.token << ", " << worst.column << "]: got " << worst.got << ", want "
        << worst.want.lo << " ... " << worst.want.hi;
  }
  // The last launch had half `last`, and has left the other one clear.
  void expect_half(int last) const {
    const ExpertsWorkspace at = experts_workspace(plain());
    const auto all = workspace.back();
    LaunchWord word{};
    std::memcpy(&word, all.data() + ExpertsWorkspace::kWordAt, sizeof word);
    EXPECT_EQ(word.bits, LaunchWord::at_rest(at.half_bytes, 1 - last));
    const auto* const other = all.data() + ExpertsWorkspace::kHalvesAt + (1 - last) * at.half_bytes;
    for (int64_t i = 0; i < at.half_bytes; ++i) ASSERT_EQ(other[i], 0xFF) << "the other half";
  }
  std::vector<Bf16> random_x() { return made_.random_x(shape.tokens); }
  std::vector<int32_t> random_ids() { return made_.random_ids(shape.tokens, shape.top_k); }

  Shape shape;

 private:
  std::vector<uint8_t> packed() const {
    const int64_t bytes = layouts::stream_sizes(made_.experts[0]).expert_bytes();
    std::vector<uint8_t> all(size_of(shape.experts * bytes));
    for (int64_t e = 0; e < shape.experts; ++e)
      EXPECT_EQ(
          layouts::pack_stream_expert(made_.experts[size_of(e)], experts_order(shape.activations),
                                      all.data() + e * bytes),
          layouts::StreamScale::kFast);
    return all;
  }
  std::vector<float> of_experts(float layouts::ExpertWeights::*field) const {
    std::vector<float> v;
    for (const layouts::ExpertWeights& e : made_.experts) v.push_back(e.*field);
    return v;
  }
  std::vector<Bf16> biases(layouts::BiasView layouts::ExpertWeights::*field, int64_t n) const {
    std::vector<Bf16> v;
    for (const layouts::ExpertWeights& e : made_.experts) {
      const layouts::BiasView& b = e.*field;
      for (int64_t i = 0; i < n; ++i)
        v.push_back(b.data == nullptr ? Bf16{0} : b.data[i * b.stride]);
    }
    return v;
  }

  cpu::TestLayer made_;
  OnDevice<uint8_t> weights_;
  OnDevice<float> gate_alpha_, up_alpha_, down_alpha_, limit_;
  OnDevice<Bf16> gate_bias_, up_bias_, down_bias_;

 public:
  OnDevice<Bf16> x;
  OnDevice<uint8_t> codes, scales;
  OnDevice<int32_t> record, permuted, slot_row;
  OnDevice<uint8_t> workspace, h_values, h_scales;
  OnDevice<Bf16> h;
};

// Twice from the same logits: on three CTAs in garbage, on one in what they have cleared.
std::vector<Bf16> expect_from_logits(Chained& layer) {
  const Shape& s = layer.shape;
  const int64_t experts = layer.spec().experts, elems = s.tokens * s.hidden;
  std::mt19937 rng(3);
  std::normal_distribution<float> normal(0.0F, 2.0F);
  std::vector<float> logits, bias;
  for (int64_t i = 0; i < s.tokens * experts; ++i)
    logits.push_back(formats::bf16_to_f32(formats::bf16_from_f32(normal(rng))));
  for (int64_t i = 0; i < experts; ++i) bias.push_back(0.1F * normal(rng));
  // In row 0 experts have the same score, the best: they are chosen by rounds.
  for (int64_t e = 2; e < 8; ++e) bias[size_of(e)] = 0.5F;
  for (int64_t e = 0; e < experts; ++e) logits[size_of(e)] = 1.0F;
  std::vector<Bf16> halves(2 * logits.size());
  std::memcpy(static_cast<void*>(halves.data()), logits.data(), logits.size() * sizeof(float));
  const std::vector<Bf16> x = layer.random_x();
  const OnDevice<Bf16> from_x(x), from_logits(halves), d_logits(unset<Bf16>(std::ssize(halves)));
  const OnDevice<float> d_bias(bias);
  struct Out {
    OnDevice<int32_t> ids;
    OnDevice<float> weights;
    OnDevice<Bf16> y;
  } first{OnDevice(unset<int32_t>(layer.slots())), OnDevice(unset<float>(layer.slots())),
          OnDevice(unset<Bf16>(elems))},
      second{OnDevice(unset<int32_t>(layer.slots())), OnDevice(unset<float>(layer.slots())),
             OnDevice(unset<Bf16>(elems))};
  const auto of = [&](const Out& out) {
    ExpertsArgs all = layer.args(out.weights.get(), out.y.get());
    TopkArgs topk{};
    topk.logits = reinterpret_cast<const float*>(d_logits.get());
    topk.tokens = s.tokens;
    topk.experts = experts;
    topk.router.top_k = s.top_k;
    topk.bias = d_bias.get();
    topk.topk_ids = out.ids.get();
    topk.topk_weights = out.weights.get();
    all.front = {.x = layer.x.get(),
                 .topk = topk,
                 .first_expert = layer.spec().first_expert,
                 .permuted = layer.permuted.get(),
                 .record = layer.record.get()};
    return all;
  };
  const ExpertsArgs one = of(first), two = of(second);
  expect_ok(check_experts(one));
  const Slow slow;
  slow.launch();
  expect_ok(
      cuda::launch_rank_sum({from_logits.get(), 1, std::ssize(halves), d_logits.get()}, nullptr));
  expect_ok(cuda::launch_rank_sum({from_x.get(), 1, elems, layer.x.get()}, nullptr));
  expect_ok(launch_experts(one, 3, nullptr));
  expect_ok(launch_experts(two, 1, nullptr));
  layer.read_back(two);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  if (testing::Test::HasFailure()) return {};

  std::vector<int32_t> ids(size_of(layer.slots()));
  std::vector<float> weights(ids.size());
  TopkArgs topk = one.front.topk;
  topk.logits = logits.data();
  topk.bias = bias.data();
  topk.topk_ids = ids.data();
  topk.topk_weights = weights.data();
  routing::topk(topk, 0, s.tokens);
  const auto found = second.weights.back();
  for (size_t i = 0; i < weights.size(); ++i)
    EXPECT_NEAR(found[i], weights[i], weights[i] * 0x1p-18F);
  expect_bytes(first.ids.back(), ids, "ids");
  expect_bytes(second.ids.back(), ids, "ids");
  expect_bytes(first.weights.back(), found, "weights");
  std::vector<int32_t> local(ids);
  for (int32_t& id : local) id -= static_cast<int32_t>(layer.spec().first_expert);
  std::vector<int32_t> permuted(ids.size()),
      record(size_of(routing::record_words(layer.most_tiles())));
  routing::route(
      {{local.data(), false}, s.tokens, s.top_k, s.experts, permuted.data(), record.data()});
  expect_bytes(layer.permuted.back(), permuted, "permuted");
  expect_bytes(layer.record.back(), record, "record");
  const auto y = second.y.back();
  expect_bytes(first.y.back(), y, "y");
  layer.expect_half(1);
  layer.expect_right(ids, found, y);
  return y;
}

// From ids, and from x that is the first elements of `y`.
void expect_from_ids(Chained& layer, const std::vector<Bf16>& y) {
  const Shape& s = layer.shape;
  const int64_t elems = s.tokens * s.hidden;
  const std::vector<int32_t> ids = layer.random_ids();
  std::vector<float> weights;
  for (size_t i = 0; i < ids.size(); ++i) weights.push_back(static_cast<float>(i + 1) / 32.0F);
  const OnDevice<Bf16> from_x(y), d_y(unset<Bf16>(elems));
  const OnDevice<int32_t> d_ids(ids);
  const OnDevice<float> d_weights(weights);
  const ExpertsArgs all = layer.args(d_weights.get(), d_y.get());
  expect_ok(check_experts(all));
  const Slow slow;
  slow.launch();
  expect_ok(cuda::launch_rank_sum({from_x.get(), 1, elems, layer.x.get()}, nullptr));
  if (layer.is_mxfp8())
    expect_ok(cuda::launch_mxfp8_quantize({layer.x.get(), s.tokens, s.hidden, ScaleLayout::kLinear,
                                           layer.codes.get(), layer.scales.get()},
                                          nullptr));
  expect_ok(cuda::launch_route({.topk_ids = {d_ids.get(), false},
                                .tokens = s.tokens,
                                .top_k = s.top_k,
                                .experts = s.experts,
                                .permuted = layer.permuted.get(),
                                .record = layer.record.get(),
                                .first_expert = layer.spec().first_expert},
                               nullptr));
  if (layer.is_mxfp8()) {
    expect_ok(launch_make_ready(all, nullptr));
  } else {  // so that two CTAs come to a workspace at rest, too
    expect_ok(launch_experts(all, 2, nullptr));
  }
  expect_ok(launch_experts(all, 2, nullptr));
  layer.read_back(all);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  if (testing::Test::HasFailure()) return;
  layer.expect_half(layer.is_mxfp8() ? 0 : 1);
  layer.expect_right(ids, weights, d_y.back());
}

// The first layer has a stage and a tile more than the rings have room for; the second one biases, and stages of a pair less.
void expect_chain(Activations activations, WeightFormat weights) {
  Chained first({activations, weights, 1024, 96, 5, 3, 8, false});
  const auto y = expect_from_logits(first);
  if (testing::Test::HasFailure()) return;
  Chained second({activations, weights, 512, 448, 2, 2, 5, true});
  expect_from_ids(second, y);
}

TEST(ExpertsChain, OfMxfp8IsTheReference) {
  expect_chain(Activations::kMxfp8, WeightFormat::kMxfp4);
}
TEST(ExpertsChain, OfBf16IsTheReference) { expect_chain(Activations::kBf16, WeightFormat::kMxfp4); }

}  // namespace
}  // namespace octet::sm90
