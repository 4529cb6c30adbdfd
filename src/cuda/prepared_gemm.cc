// SPDX-License-Identifier: Apache-2.0
// Checks of the expert GEMMs' arguments, and the kernels' arguments from them.
#include "cuda/prepared_gemm.h"

#include <limits>
#include <string>

#include "routing/record.h"

namespace octet::cuda {
namespace {

Status want(const std::string& what, int64_t found, const std::string& wanted) {
  return unsupported(what + " " + std::to_string(found) + ", want " + wanted);
}

Status check_pointer(const char* name, const void* p, unsigned alignment) {
  if (p == nullptr) return unsupported(std::string(name) + " is missing");
  if (reinterpret_cast<uintptr_t>(p) % alignment == 0) return {};
  return unsupported(std::string(name) + ": address not a multiple of " +
                     std::to_string(alignment));
}

struct Sizes {
  int64_t tokens, top_k, experts, hidden, padded, expert_rows;
};

Status check_sizes(const Sizes& s) {
  if (s.tokens < 0 || s.tokens > kMostTokens) return want("T", s.tokens, "0 to 8");
  if (s.top_k < 1 || s.top_k > kMostTopK) return want("k", s.top_k, "1 to 8");
  if (s.experts < 1 || s.experts > kMostExperts) return want("experts", s.experts, "1 to 384");
  if (s.hidden < kChunk || s.hidden % kChunk != 0)
    return want("hidden", s.hidden, "a multiple of 128");
  if (s.padded < kChunk || s.padded % kChunk != 0)
    return want("padded intermediate", s.padded, "a multiple of 128");
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (s.expert_rows > kMost / s.experts)
    return want("rows of all experts' weights", s.experts * s.expert_rows, "less than 2^31");
  return {};
}

Status check_plan(const GemmPlan& plan, const char* what, int64_t found) {
  if (plan.stages >= 2) return {};
  return want(what, found, "so little that two stages fit into shared memory");
}

// Both GEMMs'.
GemmKernelArgs kernel_args(const Sizes& s, const GemmPlan& plan, const uint8_t* weight_scales,
                           const int32_t* record) {
  GemmKernelArgs a{};
  a.weight_scales = weight_scales;
  a.record = record;
  a.most_tiles = static_cast<int32_t>(routing::max_ctas(s.tokens, s.top_k, s.experts));
  a.expert_rows = static_cast<int32_t>(s.expert_rows);
  a.blocks = plan.blocks;
  a.chunks = plan.chunks;
  a.stages = plan.stages;
  return a;
}

Sizes sizes_of(const Gemm1Args& a) {
  return {a.tokens, a.top_k, a.experts, a.hidden, a.padded, 2 * a.padded};
}
Sizes sizes_of(const Gemm2Args& a) {
  return {a.tokens, a.top_k, a.experts, a.hidden, a.padded, a.hidden};
}

}  // namespace

Status check_gemm1(const PreparedGemms& gemms, const Gemm1Args& a) {
  OCTET_RETURN_IF_ERROR(check_sizes(sizes_of(a)));
  if (a.intermediate < 1 || a.intermediate > a.padded)
    return want("intermediate", a.intermediate, "1 to " + std::to_string(a.padded));
  OCTET_RETURN_IF_ERROR(check_plan(gemms.gemm1_plan(a.hidden, a.intermediate), "hidden", a.hidden));
  OCTET_RETURN_IF_ERROR(check_pointer("x_quant", a.x_quant, 16));
  OCTET_RETURN_IF_ERROR(check_pointer("x_scale", a.x_scale, 16));
  OCTET_RETURN_IF_ERROR(check_pointer("record", a.record, 16));
  OCTET_RETURN_IF_ERROR(check_pointer("w13", a.w13, 32));
  OCTET_RETURN_IF_ERROR(check_pointer("w13_scale", a.w13_scale, 16));
  OCTET_RETURN_IF_ERROR(check_pointer("clamp", a.clamp, 4));
  OCTET_RETURN_IF_ERROR(check_pointer("h_values", a.h_values, 16));
  return check_pointer("h_scales", a.h_scales, 16);
}

Status check_gemm2(const PreparedGemms& gemms, const Gemm2Args& a) {
  OCTET_RETURN_IF_ERROR(check_sizes(sizes_of(a)));
  OCTET_RETURN_IF_ERROR(
      check_plan(gemms.gemm2_plan(a.hidden, a.padded), "padded intermediate", a.padded));
  OCTET_RETURN_IF_ERROR(check_pointer("h_values", a.h_values, 16));
  OCTET_RETURN_IF_ERROR(check_pointer("h_scales", a.h_scales, 16));
  OCTET_RETURN_IF_ERROR(check_pointer("record", a.record, 16));
  OCTET_RETURN_IF_ERROR(check_pointer("w2", a.w2, 32));
  OCTET_RETURN_IF_ERROR(check_pointer("w2_scale", a.w2_scale, 16));
  return check_pointer("gemm2_rows", a.gemm2_rows, 16);
}

Status make_gemm1(const PreparedGemms& gemms, const Gemm1Args& a, EncodeTiled encode,
                  GemmLaunch<Gemm1KernelArgs>& l) {
  OCTET_RETURN_IF_ERROR(check_gemm1(gemms, a));
  l = {};
  l.plan = gemms.gemm1_plan(a.hidden, a.intermediate);
  l.args.gemm = kernel_args(sizes_of(a), l.plan, a.w13_scale, a.record);
  l.args.x_scale = a.x_scale;
  l.args.clamp = a.clamp;
  l.args.tokens = static_cast<int32_t>(a.tokens);
  l.args.intermediate = static_cast<int32_t>(a.intermediate);
  l.args.padded = static_cast<int32_t>(a.padded);
  l.args.h_values = a.h_values;
  l.args.h_scales = a.h_scales;
  if (a.tokens == 0) return {};
  OCTET_RETURN_IF_ERROR(gemms.encode_weights(
      encode, {"w13", a.w13, a.experts * 2 * a.padded, a.hidden}, l.args.gemm.weights));
  return encode_tokens(encode, {"x_quant", a.x_quant, a.tokens, a.hidden}, l.args.gemm.tokens);
}

Status make_gemm2(const PreparedGemms& gemms, const Gemm2Args& a, EncodeTiled encode,
                  GemmLaunch<Gemm2KernelArgs>& l) {
  OCTET_RETURN_IF_ERROR(check_gemm2(gemms, a));
  l = {};
  l.plan = gemms.gemm2_plan(a.hidden, a.padded);
  l.args.gemm = kernel_args(sizes_of(a), l.plan, a.w2_scale, a.record);
  l.args.h_scales = a.h_scales;
  l.args.hidden = static_cast<int32_t>(a.hidden);
  l.args.gemm2_rows = a.gemm2_rows;
  if (a.tokens == 0) return {};
  OCTET_RETURN_IF_ERROR(gemms.encode_weights(encode, {"w2", a.w2, a.experts * a.hidden, a.padded},
                                             l.args.gemm.weights));
  return encode_tokens(encode,
                       {"h_values", a.h_values, kTileRows * l.args.gemm.most_tiles, a.padded},
                       l.args.gemm.tokens);
}

}  // namespace octet::cuda
