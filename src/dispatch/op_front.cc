// SPDX-License-Identifier: Apache-2.0
// mxfp8_quantize, topk, route, and front: the three in one.
#include <array>
#include <fmt/format.h>

#include "cpu/ops.h"
#include "dispatch/op_input.h"
#include "layouts/scale_layout.h"
#include "reference/reference.h"
#include "routing/record.h"
#include "routing/topk.h"

namespace octet::dispatch {
namespace {

constexpr int64_t kRouteMaxTopK = 8;

Result<QuantizeArgs> quantize_args(OpCall& call, ScaleLayout layout) {
  OCTET_ASSIGN_OR_RETURN(const TensorView x, call.need("x", {Dtype::kBf16}, {"T", "K"}));
  const int64_t tokens = x.dim(0);
  const int64_t width = x.dim(1);
  OCTET_RETURN_IF_ERROR(check_multiple("x", "K", width, kMxBlock, 0));
  const int64_t blocks = width / kMxBlock;
  const Dims scale_dims = layout == ScaleLayout::kLinear
                              ? Dims{tokens, blocks}
                              : Dims{layouts::scale_bytes(layout, tokens, blocks)};
  OCTET_ASSIGN_OR_RETURN(uint8_t* const x_quant,
                         call.out<uint8_t>("x_quant", Dtype::kE4m3, {tokens, width}, "x"));
  OCTET_ASSIGN_OR_RETURN(uint8_t* const x_scale,
                         call.out<uint8_t>("x_scale", Dtype::kU8, scale_dims, "x"));
  return QuantizeArgs{.x = x.as<Bf16>(),
                      .tokens = tokens,
                      .width = width,
                      .layout = layout,
                      .x_quant = x_quant,
                      .x_scale = x_scale};
}

Result<RouterSpec> router_spec(OpCall& call) {
  constexpr std::array kKinds = {RouterKind::kDsv4, RouterKind::kHash, RouterKind::kDeepseekV3,
                                 RouterKind::kSoftmax, RouterKind::kFlint};
  std::vector<std::string_view> names;
  for (const RouterKind kind : kKinds) names.push_back(name_of(kind));
  constexpr IntRange kCount = {1, kMaxSize};
  constexpr int64_t kWide = int64_t{1} << 53;  // what a binary64 setting holds exactly
  RouterSpec r;
  OCTET_ASSIGN_OR_RETURN(const size_t kind, call.choice("router", names, 0));
  r.kind = kKinds[kind];
  OCTET_ASSIGN_OR_RETURN(r.top_k, call.integer("top_k", {1, routing::kMaxTopK}, 6));
  OCTET_ASSIGN_OR_RETURN(r.scale, call.number("scale", 1.0F));
  OCTET_ASSIGN_OR_RETURN(r.groups, call.integer("groups", kCount, 1));
  OCTET_ASSIGN_OR_RETURN(r.groups_kept, call.integer("groups_kept", kCount, 1));
  OCTET_ASSIGN_OR_RETURN(r.image_sentinel_lo,
                         call.integer("image_sentinel_lo", {-kWide, kWide}, 0));
  return r;
}

// The tensors that the router of `a` reads beside the logits.
Status add_router_tensors(OpCall& call, TopkArgs& a) {
  const bool is_dsv4 = a.router.kind == RouterKind::kDsv4;
  const bool is_hash = a.router.kind == RouterKind::kHash;
  if (is_dsv4 || a.router.kind == RouterKind::kDeepseekV3) {
    OCTET_ASSIGN_OR_RETURN(const TensorView bias, call.need("bias", {Dtype::kF32}, {a.experts}));
    a.bias = bias.as<float>();
  }
  if ((is_dsv4 || is_hash) && call.has("bias_vl")) {
    OCTET_ASSIGN_OR_RETURN(const TensorView bias_vl,
                           call.need("bias_vl", {Dtype::kF32}, {a.experts}));
    a.bias_vl = bias_vl.as<float>();
  }
  if (is_hash) {
    OCTET_ASSIGN_OR_RETURN(const TensorView table,
                           call.need("table", {Dtype::kI32}, {"vocab", "k"}));
    a.table = table.as<int32_t>();
    a.vocab = table.dim(0);
    OCTET_ASSIGN_OR_RETURN(a.router.top_k,
                           call.integer("top_k", {1, routing::kMaxTopK}, table.dim(1)));
    if (a.router.top_k != table.dim(1)) {
      return invalid_argument(fmt::format("top_k {}, want {}: table is {}", a.router.top_k,
                                          table.dim(1), to_string(table.dims)));
    }
  }
  if (a.bias_vl != nullptr || a.table != nullptr) {
    OCTET_ASSIGN_OR_RETURN(const TensorView ids,
                           call.need("input_ids", {Dtype::kI32, Dtype::kI64}, {a.tokens}));
    a.input_ids = token_ids(ids);
  } else {  // not read, but what is there must be right
    OCTET_RETURN_IF_ERROR(call.maybe("input_ids", {Dtype::kI32, Dtype::kI64}, {"T"}).status());
  }
  return {};
}

Result<TopkArgs> topk_args(OpCall& call) {
  OCTET_ASSIGN_OR_RETURN(const TensorView logits, call.need("logits", {Dtype::kF32}, {"T", "E"}));
  TopkArgs a{.logits = logits.as<float>(),
             .tokens = logits.dim(0),
             .experts = logits.dim(1),
             .router = {},
             .input_ids = {},
             .topk_ids = nullptr,
             .topk_weights = nullptr};
  OCTET_ASSIGN_OR_RETURN(a.router, router_spec(call));
  OCTET_RETURN_IF_ERROR(add_router_tensors(call, a));
  OCTET_RETURN_IF_ERROR(routing::check_topk(a));
  const Dims dims{a.tokens, a.router.top_k};
  OCTET_ASSIGN_OR_RETURN(a.topk_ids, call.out<int32_t>("topk_ids", Dtype::kI32, dims, "logits"));
  OCTET_ASSIGN_OR_RETURN(a.topk_weights,
                         call.out<float>("topk_weights", Dtype::kF32, dims, "logits"));
  return a;
}

struct RouteOutputs {
  int32_t *permuted, *record;
};
// Slots of [tokens, top_k] over `experts`; `culprit` names what brought the sizes.
Result<RouteOutputs> route_outputs(OpCall& call, int64_t tokens, int64_t top_k, int64_t experts,
                                   std::string_view culprit) {
  const int64_t ctas = routing::max_ctas(tokens, top_k, experts);
  if (ctas > kMaxSize / kTileRows - 1) {
    return invalid_argument(
        fmt::format("{}: {} tiles, want at most {}", culprit, ctas, kMaxSize / kTileRows - 1));
  }
  OCTET_ASSIGN_OR_RETURN(int32_t* const permuted,
                         call.out<int32_t>("permuted", Dtype::kI32, {tokens, top_k}, culprit));
  OCTET_ASSIGN_OR_RETURN(
      int32_t* const record,
      call.out<int32_t>("record", Dtype::kI32, {routing::record_words(ctas)}, culprit));
  return RouteOutputs{permuted, record};
}

}  // namespace

Status op_mxfp8_quantize(OpCall& call) {
  constexpr std::array kLayouts = {ScaleLayout::kLinear, ScaleLayout::k128x4, ScaleLayout::k8x4};
  std::vector<std::string_view> names;
  for (const ScaleLayout layout : kLayouts) names.push_back(name_of(layout));
  OCTET_ASSIGN_OR_RETURN(const size_t layout, call.choice("layout", names, 0));
  OCTET_ASSIGN_OR_RETURN(const QuantizeArgs args, quantize_args(call, kLayouts[layout]));
  call.is_reference() ? reference::mxfp8_quantize(args) : cpu::mxfp8_quantize(args, call.executor);
  return {};
}

Status op_topk(OpCall& call) {
  OCTET_ASSIGN_OR_RETURN(const TopkArgs args, topk_args(call));
  call.is_reference() ? reference::topk(args) : cpu::topk(args, call.executor);
  return {};
}

Status op_route(OpCall& call) {
  OCTET_ASSIGN_OR_RETURN(const TensorView ids,
                         call.need("topk_ids", {Dtype::kI32, Dtype::kI64}, {"T", "k"}));
  OCTET_ASSIGN_OR_RETURN(const int64_t experts,
                         call.integer("experts", {1, routing::kRouteMaxExperts}));
  if (ids.dim(1) < 1 || ids.dim(1) > kRouteMaxTopK) {
    return invalid_argument(fmt::format("topk_ids: k {}, want 1..{}", ids.dim(1), kRouteMaxTopK));
  }
  OCTET_ASSIGN_OR_RETURN(const RouteOutputs out,
                         route_outputs(call, ids.dim(0), ids.dim(1), experts, "topk_ids"));
  const RouteArgs args{.topk_ids = token_ids(ids),
                       .tokens = ids.dim(0),
                       .top_k = ids.dim(1),
                       .experts = experts,
                       .permuted = out.permuted,
                       .record = out.record};
  call.is_reference() ? reference::route(args) : routing::route(args);
  return {};
}

Status op_front(OpCall& call) {
  OCTET_ASSIGN_OR_RETURN(const QuantizeArgs quantize, quantize_args(call, ScaleLayout::kLinear));
  OCTET_RETURN_IF_ERROR(call.need("logits", {Dtype::kF32}, {quantize.tokens, "E"}).status());
  OCTET_ASSIGN_OR_RETURN(const TopkArgs topk, topk_args(call));
  const int64_t top_k = topk.router.top_k;
  if (top_k > kRouteMaxTopK) {
    return invalid_argument(fmt::format("top_k {}, want 1..{}", top_k, kRouteMaxTopK));
  }
  if (topk.experts > routing::kRouteMaxExperts) {
    return invalid_argument(fmt::format("logits: {} experts, want at most {}", topk.experts,
                                        routing::kRouteMaxExperts));
  }
  OCTET_ASSIGN_OR_RETURN(const RouteOutputs out,
                         route_outputs(call, topk.tokens, top_k, topk.experts, "logits"));
  const FrontArgs args{
      .quantize = quantize, .topk = topk, .permuted = out.permuted, .record = out.record};
  call.is_reference() ? reference::front(args) : cpu::front(args, call.executor);
  return {};
}

}  // namespace octet::dispatch
