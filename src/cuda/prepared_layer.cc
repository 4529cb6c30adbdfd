// SPDX-License-Identifier: Apache-2.0
#include "cuda/prepared_layer.h"

#include <string>

#include "core/carver.h"
#include "cuda/finalize_bf16.h"
#include "cuda/front.h"
#include "routing/record.h"

namespace octet::cuda {
namespace {

constexpr int64_t kAlignment = 256;

Gemm1Args gemm1_args(const DecodeArgs& a, const DecodeWorkspace& w) {
  return {.x_quant = w.x_quant,
          .x_scale = w.x_scale,
          .record = w.record,
          .w13 = a.weights.w13,
          .w13_scale = a.weights.w13_scale,
          .clamp = a.weights.clamp,
          .tokens = a.topk.tokens,
          .top_k = a.topk.router.top_k,
          .experts = a.weights.experts,
          .hidden = a.weights.hidden,
          .padded = a.weights.padded,
          .intermediate = a.weights.intermediate,
          .h_values = w.h_values,
          .h_scales = w.h_scales};
}

Gemm2Args gemm2_args(const DecodeArgs& a, const DecodeWorkspace& w) {
  return {.h_values = w.h_values,
          .h_scales = w.h_scales,
          .record = w.record,
          .w2 = a.weights.w2,
          .w2_scale = a.weights.w2_scale,
          .tokens = a.topk.tokens,
          .top_k = a.topk.router.top_k,
          .experts = a.weights.experts,
          .hidden = a.weights.hidden,
          .padded = a.weights.padded,
          .gemm2_rows = w.rows};
}

TopkArgs topk_args(const DecodeArgs& a, const DecodeWorkspace& w) {
  TopkArgs t = a.topk;
  if (t.topk_ids == nullptr) t.topk_ids = w.topk_ids;
  if (t.topk_weights == nullptr) t.topk_weights = w.topk_weights;
  return t;
}

FrontArgs front_args(const DecodeArgs& a, const DecodeWorkspace& w) {
  return {.quantize = {.x = a.x,
                       .tokens = a.topk.tokens,
                       .width = a.weights.hidden,
                       .layout = ScaleLayout::kLinear,
                       .x_quant = w.x_quant,
                       .x_scale = w.x_scale},
          .topk = topk_args(a, w),
          .permuted = w.permuted,
          .record = w.record};
}

DecodeWorkspace workspace_of(const DecodeArgs& a) {
  return decode_workspace(a.weights, a.topk.tokens, a.topk.router.top_k, a.workspace);
}

}  // namespace

DecodeWorkspace decode_workspace(const PreparedWeights& weights, int64_t tokens, int64_t top_k,
                                 void* base) {
  const int64_t ctas = routing::max_ctas(tokens, top_k, weights.experts);
  Carver<kAlignment> c(static_cast<std::byte*>(base));
  DecodeWorkspace w{};
  w.x_quant = c.take<uint8_t>(tokens * weights.hidden);
  w.x_scale = c.take<uint8_t>(tokens * weights.hidden / kMxBlock);
  w.topk_ids = c.take<int32_t>(tokens * top_k);
  w.permuted = c.take<int32_t>(tokens * top_k);
  w.topk_weights = c.take<float>(tokens * top_k);
  w.record = c.take<int32_t>(routing::record_words(ctas));
  w.h_values = c.take<uint8_t>(kTileRows * ctas * weights.padded);
  w.h_scales = c.take<uint8_t>(ctas * weights.padded * 4);
  w.rows = c.take<Bf16>(kTileRows * ctas * weights.hidden);
  w.bytes = c.bytes();
  return w;
}

Status check_decode(const PreparedGemms& gemms, const DecodeArgs& a) {
  if (a.topk.experts != a.weights.experts)
    return unsupported("experts " + std::to_string(a.topk.experts) +
                       ", want those of the weights, " + std::to_string(a.weights.experts));
  if (a.topk.tokens < 0 || a.topk.tokens > kMostTokens)
    return unsupported("T " + std::to_string(a.topk.tokens) + ", want 0 to 8");
  if (a.workspace == nullptr || reinterpret_cast<uintptr_t>(a.workspace) % kAlignment != 0)
    return unsupported("workspace: address not a multiple of 256");
  const DecodeWorkspace w = workspace_of(a);
  if (a.workspace_bytes < w.bytes)
    return unsupported("workspace bytes " + std::to_string(a.workspace_bytes) + ", want at least " +
                       std::to_string(w.bytes));
  if (a.ctas < 1) return unsupported("CTAs " + std::to_string(a.ctas) + ", want at least 1");
  OCTET_RETURN_IF_ERROR(check_gemm1(gemms, gemm1_args(a, w)));
  return check_gemm2(gemms, gemm2_args(a, w));
}

Status launch_decode(const PreparedGemms& gemms, const DecodeArgs& a, EncodeTiled encode,
                     cudaStream_t stream) {
  OCTET_RETURN_IF_ERROR(check_decode(gemms, a));
  if (a.topk.tokens == 0) return {};
  const DecodeWorkspace w = workspace_of(a);
  GemmLaunch<Gemm1KernelArgs> gemm1;
  GemmLaunch<Gemm2KernelArgs> gemm2;
  OCTET_RETURN_IF_ERROR(make_gemm1(gemms, gemm1_args(a, w), encode, gemm1));
  OCTET_RETURN_IF_ERROR(make_gemm2(gemms, gemm2_args(a, w), encode, gemm2));
  const FrontArgs front = front_args(a, w);
  OCTET_RETURN_IF_ERROR(launch_front(front, stream));
  OCTET_RETURN_IF_ERROR(gemms.launch_gemm1(gemm1, a.ctas, stream));
  OCTET_RETURN_IF_ERROR(gemms.launch_gemm2(gemm2, a.ctas, stream));
  if (a.y == nullptr) return {};
  return launch_finalize_bf16({.rows = w.rows,
                               .topk_weights = front.topk.topk_weights,
                               .permuted = w.permuted,
                               .shared = a.shared,
                               .scale = a.scale,
                               .tokens = a.topk.tokens,
                               .top_k = a.topk.router.top_k,
                               .hidden = a.weights.hidden,
                               .y = a.y},
                              stream);
}

}  // namespace octet::cuda
