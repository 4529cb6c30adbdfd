// SPDX-License-Identifier: Apache-2.0
// A call of a layer on Hopper's kernels: for each chunk of 8 rows
//
//   logits                        ────────────────────────────────────────────────┐
//   ids, or x_quant is wanted too ──► (topk,) mxfp8_quantize, route, make_ready ──┴─► experts ─► (read_back, finalize)
//   bf16: ids                     ──► route ────────────────────────────────────────► experts
#include "sm90/sm90_experts.h"

#include <algorithm>
#include <limits>

#include "cuda/device_experts.h"
#include "cuda/device_routing.h"
#include "sm90/experts_mxfp8.h"
#include "sm90/experts_plan.h"
#include "sm90/read_back.h"

namespace octet::sm90 {
namespace {

using cuda::DeviceCall;
using cuda::LayerOnDevice;

cuda::ExpertGemmArgs gemm_args(const LayerSpec& spec, const cuda::StreamWeights& weights,
                               int64_t tokens, int64_t top_k) {
  return {.weights = weights,
          .tokens = tokens,
          .top_k = top_k,
          .hidden = spec.hidden,
          .intermediate = spec.intermediate,
          .activations = spec.activations,
          .alpha = spec.swiglu.alpha,
          .beta = spec.swiglu.beta};
}

template <class T>
T* offset(T* p, int64_t count) {
  return p == nullptr ? nullptr : p + count;
}
TokenIds offset(const TokenIds& ids, int64_t count) {
  const int64_t bytes =
      count * static_cast<int64_t>(ids.is_i64 ? sizeof(int64_t) : sizeof(int32_t));
  return {offset(static_cast<const std::byte*>(ids.data), bytes), ids.is_i64};
}

// Rows first ... first + count - 1 of a call; `permuted` counts the chunk's rows then.
DeviceCall rows_of(const DeviceCall& c, const LayerSpec& s, int64_t first, int64_t count) {
  const int64_t slot = first * c.top_k;
  return {.tokens = count,
          .top_k = c.top_k,
          .x = c.x + first * s.hidden,
          .ids = offset(c.ids, slot),
          .weights = offset(c.weights, slot),
          .logits = offset(c.logits, first * s.experts),
          .input_ids = offset(c.input_ids, first),
          .shared = offset(c.shared, first * s.hidden),
          .y = offset(c.y, first * s.hidden),
          .topk_ids = offset(c.topk_ids, slot),
          .topk_weights = offset(c.topk_weights, slot),
          .rows = offset(c.rows, slot * s.hidden),
          .permuted = offset(c.permuted, slot),
          .x_quant = offset(c.x_quant, first * s.hidden),
          .x_scale = offset(c.x_scale, first * s.hidden / kMxBlock),
          .h_values = offset(c.h_values, slot * s.intermediate),
          .h_scales = offset(c.h_scales, slot * ceil_div(s.intermediate, kMxBlock)),
          .h = offset(c.h, slot * s.intermediate)};
}

class Sm90Experts final : public cuda::DeviceExperts {
 public:
  layouts::StreamOrder order(Activations activations) const override {
    return experts_order(activations);
  }
  std::string refusal(const LayerSpec& spec, int64_t down_start) const override;
  Status prepare(const cuda::StreamWeights& weights) const override;
  Status check(const LayerOnDevice&, const DeviceCall& call) const override;
  int64_t workspace_bytes(const LayerOnDevice& layer, int64_t tokens,
                          int64_t top_k) const override {
    return pieces(layer, std::min<int64_t>(tokens, kMostTokens), top_k, nullptr).bytes;
  }
  Status enqueue(const LayerOnDevice& layer, const DeviceCall& call, std::byte* workspace,
                 void* stream) const override;

 private:
  struct Pieces {  // of a chunk
    cuda::RoutingPieces routing;
    int32_t* slot_row;             // [T, k]
    std::byte* experts;            // experts_workspace
    int64_t experts_bytes, bytes;  // of those, of all
  };
  static Pieces pieces(const LayerOnDevice& layer, int64_t tokens, int64_t top_k, std::byte* base);
  static Status enqueue_chunk(const LayerOnDevice& layer, const DeviceCall& call, int64_t first,
                              std::byte* workspace, cudaStream_t stream);
};

std::string Sm90Experts::refusal(const LayerSpec& spec, int64_t down_start) const {
  const bool is_mxfp8 = spec.activations == Activations::kMxfp8;
  if (is_mxfp8 && spec.precision == Precision::kExact)
    return "keeps 13 fraction bits in its sums of 32 products, want --precision fast";
  layouts::ExpertWeights e;
  e.gate = e.up = {.format = spec.weights, .rows = spec.intermediate, .cols = spec.hidden};
  e.down = {.format = spec.weights,
            .rows = spec.hidden,
            .cols = spec.intermediate,
            .first_col = down_start};
  const cuda::StreamWeights weights{.sizes = layouts::stream_sizes(e),
                                    .order = order(spec.activations),
                                    .experts = spec.local_experts};
  ExpertsArgs args{.gemm = gemm_args(spec, weights, kMostTokens, spec.router.top_k)};
  args.gemm.workspace_bytes = std::numeric_limits<int64_t>::max();  // a call's own
  return check_experts(args).why;
}

Status Sm90Experts::prepare(const cuda::StreamWeights& weights) const {
  // By now the order alone says what the activations are.
  const auto activations =
      weights.order == order(Activations::kMxfp8) ? Activations::kMxfp8 : Activations::kBf16;
  if (activations == Activations::kMxfp8 && weights.is_infinite)
    return unsupported(
        "the weights have scale codes 253 or 254, infinities; want at most 252, or 255");
  return prepare_experts(activations, weights.sizes.w13.format);
}

Status Sm90Experts::check(const LayerOnDevice& layer, const DeviceCall& call) const {
  if (call.top_k <= kMostTopK) return {};
  return unsupported("top_k " + std::to_string(call.top_k) + ", want at most " +
                     std::to_string(kMostTopK) + ", or a layer loaded with kernel experts_" +
                     std::string(name_of(layer.spec.activations)) + "_" +
                     std::string(name_of(layer.spec.weights)) + "_sm80");
}

Sm90Experts::Pieces Sm90Experts::pieces(const LayerOnDevice& layer, int64_t tokens, int64_t top_k,
                                        std::byte* base) {
  cuda::DeviceCarver c(base);
  Pieces p{};
  // First, so that its word is in the same place for any T.
  p.experts_bytes = experts_workspace(gemm_args(layer.spec, layer.weights, tokens, top_k)).bytes;
  p.experts = c.take<std::byte>(p.experts_bytes);
  p.routing = cuda::routing_pieces(layer, tokens, top_k, c);
  p.slot_row = c.take<int32_t>(tokens * top_k);
  p.bytes = c.bytes();
  return p;
}

// `first`: the chunk's first row.
Status Sm90Experts::enqueue_chunk(const LayerOnDevice& layer, const DeviceCall& call, int64_t first,
                                  std::byte* workspace, cudaStream_t stream) {
  Pieces p = pieces(layer, call.tokens, call.top_k, workspace);
  p.routing = cuda::with_outputs(p.routing, call);
  ExpertsArgs args{.gemm = gemm_args(layer.spec, layer.weights, call.tokens, call.top_k)};
  cuda::ExpertGemmArgs& g = args.gemm;
  g.x = call.x;
  g.x_quant = p.routing.x_quant;
  g.x_scale = p.routing.x_scale;
  g.record = p.routing.record;
  g.permuted = p.routing.padded;
  g.workspace = p.experts;
  g.workspace_bytes = p.experts_bytes;
  g.rows = call.rows;
  g.slot_row = p.slot_row;
  // A caller's rows keep what they have where no slot names them, so y is added up by a launch of its own.
  const bool is_fused = call.y != nullptr && call.rows == nullptr;
  if (is_fused) {
    args.topk_weights = call.ids.data != nullptr ? call.weights : p.routing.topk_weights;
    args.shared = call.shared;
    args.y = call.y;
  }
  if (call.ids.data == nullptr && call.x_quant == nullptr && call.x_scale == nullptr) {
    args.front = {.x = call.x,
                  .topk = cuda::topk_args(layer, call, p.routing),
                  .first_expert = layer.spec.first_expert,
                  .permuted = p.routing.padded,
                  .record = p.routing.record};
    OCTET_RETURN_IF_ERROR(check_experts(args));
  } else {
    OCTET_RETURN_IF_ERROR(check_experts(args));
    OCTET_RETURN_IF_ERROR(cuda::enqueue_routing(layer, call, p.routing, stream));
    if (g.activations == Activations::kMxfp8)
      OCTET_RETURN_IF_ERROR(launch_make_ready(args, stream));
  }
  OCTET_RETURN_IF_ERROR(launch_experts(args, experts_ctas(), stream));
  OCTET_RETURN_IF_ERROR(launch_read_back({.experts = &args,
                                          .h_values = call.h_values,
                                          .h_scales = call.h_scales,
                                          .h = call.h,
                                          .permuted = call.permuted,
                                          .first_row = static_cast<int32_t>(first * call.top_k)},
                                         stream));
  if (call.y == nullptr || is_fused) return {};
  return cuda::enqueue_finalize(layer, call, p.routing, g.rows, g.slot_row, stream);
}

Status Sm90Experts::enqueue(const LayerOnDevice& layer, const DeviceCall& call,
                            std::byte* workspace, void* stream) const {
  for (int64_t first = 0; first < call.tokens; first += kMostTokens) {
    const int64_t count = std::min<int64_t>(call.tokens - first, kMostTokens);
    OCTET_RETURN_IF_ERROR(enqueue_chunk(layer, rows_of(call, layer.spec, first, count), first,
                                        workspace, static_cast<cudaStream_t>(stream)));
  }
  return {};
}

}  // namespace

std::string sm90_refusal() { return cuda::device_refusal(9, 0, true); }

const cuda::DeviceExperts* sm90_experts() {
  static const Sm90Experts kExperts;
  return &kExperts;
}

}  // namespace octet::sm90
