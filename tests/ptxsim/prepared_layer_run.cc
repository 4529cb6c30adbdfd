// SPDX-License-Identifier: Apache-2.0
#include "prepared_layer_run.h"

#include <cstring>

#include "core/executor.h"
#include "cpu/ops.h"
#include "formats/bf16.h"
#include "prepared_backend.h"
#include "prepared_run.h"
#include "reference/routing.h"
#include "routing/record.h"
#include "routing/topk.h"
#include "sim_tensor_map.h"

namespace octet::sim {
namespace {

constexpr int64_t kMostTokens = 8;

size_t size_of(int64_t n) { return static_cast<size_t>(n); }

LayerFound front_of_the_cpu(const LayerCall& call) {
  const PreparedShape& s = call.shape;
  const int64_t slots = call.tokens * s.top_k,
                tiles = routing::max_ctas(call.tokens, s.top_k, s.experts);
  LayerFound want;
  want.x_quant.resize(size_of(call.tokens * s.hidden));
  want.x_scale.resize(size_of(call.tokens * s.hidden / kMxBlock));
  want.ids.resize(size_of(slots));
  want.permuted.resize(size_of(slots));
  want.weights.resize(size_of(slots));
  want.record.resize(size_of(routing::record_words(tiles)));
  TopkArgs topk = call.topk();
  topk.topk_ids = want.ids.data();
  topk.topk_weights = want.weights.data();
  InlineExecutor one;
  cpu::front({{call.x.data(), call.tokens, s.hidden, ScaleLayout::kLinear, want.x_quant.data(),
               want.x_scale.data()},
              topk,
              want.permuted.data(),
              want.record.data()},
             one);
  return want;
}

}  // namespace

LayerCall::LayerCall(const PreparedShape& of, int64_t num_tokens, unsigned seed)
    : shape(of), tokens(num_tokens) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < tokens * shape.hidden; ++i)
    x.push_back(formats::bf16_from_f32(8 * normal(rng)));
  for (int64_t i = 0; i < tokens * shape.experts; ++i) logits.push_back(2 * normal(rng));
  for (int64_t i = 0; i < shape.experts; ++i) {
    bias.push_back(0.1F * normal(rng));
    bias_vl.push_back(0.1F * normal(rng));
  }
  for (int64_t t = 0; t < tokens; ++t) input_ids.push_back(t == 0 ? kSentinel + 4 : t);
}

void LayerCall::route_to_all() {
  for (float& logit : logits) logit -= 40;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t j = 0; j < shape.top_k; ++j)
      logits[size_of(t * shape.experts + (t * shape.top_k + j) % shape.experts)] =
          8.0F - static_cast<float>(j);
  }
}

TopkArgs LayerCall::topk() const {
  return {.logits = logits.data(),
          .tokens = tokens,
          .experts = shape.experts,
          .router = {.kind = RouterKind::kDsv4,
                     .top_k = shape.top_k,
                     .scale = 2.5F,
                     .image_sentinel_lo = kSentinel},
          .bias = bias.data(),
          .bias_vl = bias_vl.data(),
          .input_ids = {input_ids.data(), true},
          .topk_ids = nullptr,
          .topk_weights = nullptr};
}

LayerOnDevice::LayerOnDevice(const PreparedLayer& layer, const ptxsim::machine::Settings& settings)
    : layer_(layer),
      device_(on_backend(settings)),
      queue_(device_, prepared_backend().num_sms),
      weights_{.w13 = device_.put(layer.w13, "w13"),
               .w13_scale = device_.put(layer.w13_scale, "w13_scale"),
               .w2 = device_.put(layer.w2, "w2"),
               .w2_scale = device_.put(layer.w2_scale, "w2_scale"),
               .clamp = device_.put(layer.clamp, "clamp"),
               .experts = layer.shape.experts,
               .hidden = layer.shape.hidden,
               .padded = layer.shape.padded(),
               .intermediate = layer.shape.intermediate} {
  workspace_bytes_ =
      cuda::decode_workspace(weights_, kMostTokens, layer.shape.top_k, nullptr).bytes;
  workspace_ =
      device_.put(std::vector<uint8_t>(size_of(workspace_bytes_), 0xFF), "workspace", false);
}

void LayerOnDevice::launch(const LayerCall& call, int ctas) {
  cuda::DecodeArgs a;
  a.weights = weights_;
  a.x = device_.put(call.x, "x");
  a.topk = call.topk();
  a.topk.logits = device_.put(call.logits, "logits");
  a.topk.bias = device_.put(call.bias, "bias");
  a.topk.bias_vl = device_.put(call.bias_vl, "bias_vl");
  a.topk.input_ids = {device_.put(call.input_ids, "input_ids"), true};
  if (!call.shared.empty()) a.shared = device_.put(call.shared, "shared");
  a.scale = LayerCall::kScale;
  const int64_t elems = call.wants_y ? call.tokens * call.shape.hidden : 0;
  if (call.wants_y) a.y = device_.make<Bf16>(elems, "y");
  a.workspace = workspace_;
  a.workspace_bytes = workspace_bytes_;
  a.ctas = ctas;
  outputs_.push_back({a.y, elems});
  tokens_ = call.tokens;
  const Status status = cuda::launch_decode(prepared_backend().gemms, a, encode_tiled, nullptr);
  EXPECT_TRUE(status.ok()) << status.why;
}

bool LayerOnDevice::run() {
  const Status status = queue_.run_all();
  EXPECT_TRUE(status.ok()) << status.why;
  return status.ok();
}

std::vector<Bf16> LayerOnDevice::y_of(size_t call) {
  return outputs_[call].y == nullptr ? std::vector<Bf16>{}
                                     : device_.back(outputs_[call].y, outputs_[call].elems);
}

LayerFound LayerOnDevice::found() {
  const PreparedShape& s = layer_.shape;
  const cuda::DecodeWorkspace w = cuda::decode_workspace(weights_, tokens_, s.top_k, workspace_);
  const int64_t slots = tokens_ * s.top_k, tiles = routing::max_ctas(tokens_, s.top_k, s.experts);
  return {.x_quant = device_.back(w.x_quant, tokens_ * s.hidden),
          .x_scale = device_.back(w.x_scale, tokens_ * s.hidden / kMxBlock),
          .ids = device_.back(w.topk_ids, slots),
          .permuted = device_.back(w.permuted, slots),
          .record = device_.back(w.record, routing::record_words(tiles)),
          .weights = device_.back(w.topk_weights, slots),
          .experts = {device_.back(w.h_values, 8 * tiles * s.padded()),
                      device_.back(w.h_scales, tiles * s.padded() * 4),
                      device_.back(w.rows, 8 * tiles * s.hidden)},
          .y = y_of(outputs_.size() - 1)};
}

void judge_layer(const PreparedLayer& layer, const LayerCall& call, const LayerFound& found) {
  LayerFound want = front_of_the_cpu(call);
  EXPECT_TRUE(found.x_quant == want.x_quant);
  EXPECT_TRUE(found.x_scale == want.x_scale);
  EXPECT_EQ(found.ids, want.ids);
  EXPECT_EQ(found.permuted, want.permuted);
  EXPECT_EQ(found.record, want.record);
  if (testing::Test::HasNonfatalFailure()) return;
  // The device's exp, log and square root are not the CPU's in their last bits.
  TopkArgs topk = call.topk();
  std::vector<int32_t> ids = found.ids;
  std::vector<float> weights = found.weights;
  topk.topk_ids = ids.data();
  topk.topk_weights = weights.data();
  const reference::RoutingVerdict verdict = reference::judge_routing({}, topk);
  EXPECT_TRUE(verdict.ok()) << verdict.num_ids_wrong << " ids, " << verdict.num_weights_outside
                            << " weights";
  const PreparedRows in(layer.shape, found.x_quant, found.x_scale, found.ids);
  PreparedJudge(layer, in).judge(found.experts);
  if (!call.wants_y) return;
  std::vector<Bf16> y(found.y.size());
  InlineExecutor one;
  cpu::finalize({.rows = found.experts.rows.data(),
                 .topk_weights = found.weights.data(),
                 .permuted = found.permuted.data(),
                 .shared = call.shared.empty() ? nullptr : call.shared.data(),
                 .scale = LayerCall::kScale,
                 .tokens = call.tokens,
                 .top_k = call.shape.top_k,
                 .hidden = call.shape.hidden,
                 .y = y.data()},
                one);
  EXPECT_TRUE(found.y == y) << "finalize";
}

}  // namespace octet::sim
