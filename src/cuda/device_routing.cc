// SPDX-License-Identifier: Apache-2.0
#include "cuda/device_routing.h"

#include "cuda/finalize_bf16.h"
#include "cuda/front.h"
#include "routing/record.h"

namespace octet::cuda {
namespace {

bool is_mxfp8(const LayerOnDevice& layer) { return layer.spec.activations == Activations::kMxfp8; }

}  // namespace

RoutingPieces routing_pieces(const LayerOnDevice& layer, int64_t tokens, int64_t top_k,
                             DeviceCarver& carver) {
  const int64_t slots = tokens * top_k;
  const int64_t ctas = routing::max_ctas(tokens, top_k, layer.spec.local_experts);
  RoutingPieces p{};
  // First: every call writes all of it, over the word of whatever kernel had the workspace before (sm90/launch_word.cuh), for which two counts
  // of rows are nothing to go on from.
  p.record = carver.take<int32_t>(routing::record_words(ctas));
  p.topk_ids = carver.take<int32_t>(slots);
  p.topk_weights = carver.take<float>(slots);
  p.padded = carver.take<int32_t>(slots);
  if (is_mxfp8(layer)) {
    p.x_quant = carver.take<uint8_t>(tokens * layer.spec.hidden);
    p.x_scale = carver.take<uint8_t>(tokens * layer.spec.hidden / kMxBlock);
  }
  return p;
}

RoutingPieces with_outputs(RoutingPieces p, const DeviceCall& call) {
  if (call.x_quant != nullptr) p.x_quant = call.x_quant;
  if (call.x_scale != nullptr) p.x_scale = call.x_scale;
  if (call.ids.data != nullptr) return p;
  if (call.topk_ids != nullptr) p.topk_ids = call.topk_ids;
  if (call.topk_weights != nullptr) p.topk_weights = call.topk_weights;
  return p;
}

TopkArgs topk_args(const LayerOnDevice& layer, const DeviceCall& call, const RoutingPieces& p) {
  return {.logits = call.logits,
          .tokens = call.tokens,
          .experts = layer.spec.experts,
          .router = layer.spec.router,
          .bias = layer.bias,
          .bias_vl = layer.bias_vl,
          .input_ids = call.input_ids,
          .topk_ids = p.topk_ids,
          .topk_weights = p.topk_weights};
}

Status enqueue_routing(const LayerOnDevice& layer, const DeviceCall& call, const RoutingPieces& p,
                       cudaStream_t stream) {
  const LayerSpec& spec = layer.spec;
  const QuantizeArgs quantize{.x = call.x,
                              .tokens = call.tokens,
                              .width = spec.hidden,
                              .layout = ScaleLayout::kLinear,
                              .x_quant = p.x_quant,
                              .x_scale = p.x_scale};
  TokenIds ids = call.ids;
  if (ids.data == nullptr) {
    ids = {p.topk_ids, false};
    const TopkArgs topk = topk_args(layer, call, p);
    const bool is_whole = spec.local_experts == spec.experts;
    if (is_whole && call.tokens <= kFrontMaxTokens) {
      QuantizeArgs front = quantize;
      if (!is_mxfp8(layer)) front.tokens = 0;
      return launch_front(
          {.quantize = front, .topk = topk, .permuted = p.padded, .record = p.record}, stream);
    }
    OCTET_RETURN_IF_ERROR(launch_topk(topk, stream));
  }
  if (is_mxfp8(layer)) OCTET_RETURN_IF_ERROR(launch_mxfp8_quantize(quantize, stream));
  return launch_route({.topk_ids = ids,
                       .tokens = call.tokens,
                       .top_k = call.top_k,
                       .experts = spec.local_experts,
                       .permuted = p.padded,
                       .record = p.record,
                       .first_expert = spec.first_expert},
                      stream);
}

Status enqueue_finalize(const LayerOnDevice& layer, const DeviceCall& call, const RoutingPieces& p,
                        const Bf16* rows, const int32_t* slot_row, cudaStream_t stream) {
  return launch_finalize_bf16(
      {.rows = rows,
       .topk_weights = call.ids.data != nullptr ? call.weights : p.topk_weights,
       .permuted = slot_row,
       .shared = call.shared,
       .scale = 1.0F,  // the router's is in the weights
       .tokens = call.tokens,
       .top_k = call.top_k,
       .hidden = layer.spec.hidden,
       .y = call.y},
      stream);
}

}  // namespace octet::cuda
