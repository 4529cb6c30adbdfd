// SPDX-License-Identifier: Apache-2.0
// gemm1, gemm2 on prepared weights, and finalize.
#include <algorithm>
#include <fmt/format.h>

#include "cpu/ops.h"
#include "dispatch/op_input.h"
#include "layouts/prepared.h"
#include "reference/reference.h"
#include "routing/record.h"

namespace octet::dispatch {
namespace {

struct RecordSizes {
  int64_t ctas, experts;
  int64_t tokens;  // -1: tokens are not read
};

// A record that can be followed anywhere without leaving a tensor.
Result<const int32_t*> need_record(OpCall& call, const RecordSizes& s) {
  OCTET_ASSIGN_OR_RETURN(const TensorView t,
                         call.need("record", {Dtype::kI32}, {routing::record_words(s.ctas)}));
  const int32_t* words = t.as<int32_t>();
  const routing::RecordView record(words, s.ctas);
  if (record.num_tiles < 0 || record.num_tiles > s.ctas) {
    return invalid_argument(fmt::format("record: {} tiles, want 0..{}", record.num_tiles, s.ctas));
  }
  if (words[0] != kTileRows * record.num_tiles) {
    return invalid_argument(fmt::format("record: {} rows for {} tiles, want {}", words[0],
                                        record.num_tiles, kTileRows * record.num_tiles));
  }
  for (int64_t c = 0; c < record.num_tiles; ++c) {
    const int64_t first = c * kTileRows;
    if (record.expert[c] < 0 || record.expert[c] >= s.experts) {
      return invalid_argument(fmt::format("record: tile {} has expert {}, want below {}", c,
                                          record.expert[c], s.experts));
    }
    if (record.limit[c] < first || record.limit[c] > first + kTileRows) {
      return invalid_argument(fmt::format("record: tile {} has limit {}, want {}..{}", c,
                                          record.limit[c], first, first + kTileRows));
    }
    for (int64_t row = first; s.tokens >= 0 && row < record.limit[c]; ++row) {
      if (record.token[row] < 0 || record.token[row] >= s.tokens) {
        return invalid_argument(fmt::format("record: row {} has token {}, want below {}", row,
                                            record.token[row], s.tokens));
      }
    }
  }
  return words;
}

struct Slots {
  int64_t tokens, top_k, ctas;
};
Result<Slots> slots_of(std::string_view name, const TensorView& t, int64_t experts) {
  const int64_t tokens = t.dim(0);
  const int64_t top_k = t.dim(1);
  if (top_k < 1) return invalid_argument(fmt::format("{}: k {}, want at least 1", name, top_k));
  if (tokens > kMaxSize / kTileRows / top_k - 1) {
    return invalid_argument(fmt::format("{}: {} rows of {}, want below {} slots", name, tokens,
                                        top_k, kMaxSize / kTileRows));
  }
  return Slots{tokens, top_k, routing::max_ctas(tokens, top_k, experts)};
}

}  // namespace

Status op_gemm1(OpCall& call) {
  OCTET_ASSIGN_OR_RETURN(const TensorView x, call.need("x_quant", {Dtype::kE4m3}, {"T", "H"}));
  const int64_t tokens = x.dim(0);
  const int64_t hidden = x.dim(1);
  OCTET_RETURN_IF_ERROR(check_multiple("x_quant", "H", hidden, layouts::kPreparedPad));
  OCTET_ASSIGN_OR_RETURN(const TensorView x_scale,
                         call.need("x_scale", {Dtype::kU8}, {tokens, hidden / kMxBlock}));
  OCTET_ASSIGN_OR_RETURN(const TensorView ids,
                         call.need("topk_ids", {Dtype::kI32, Dtype::kI64}, {tokens, "k"}));
  OCTET_ASSIGN_OR_RETURN(const TensorView w13,
                         call.need("w13", {Dtype::kU8}, {"E", "2 Ip", hidden / 2}));
  const int64_t experts = w13.dim(0);
  OCTET_RETURN_IF_ERROR(check_multiple("w13", "2 Ip", w13.dim(1), 2 * layouts::kPreparedPad));
  const int64_t padded = w13.dim(1) / 2;
  OCTET_ASSIGN_OR_RETURN(
      const TensorView w13_scale,
      call.need("w13_scale", {Dtype::kU8}, {experts, 2 * padded, hidden / kMxBlock}));
  OCTET_ASSIGN_OR_RETURN(const TensorView clamp, call.need("clamp", {Dtype::kF32}, {experts}));
  OCTET_ASSIGN_OR_RETURN(const int64_t intermediate, call.integer("intermediate", {1, padded}));
  OCTET_ASSIGN_OR_RETURN(const Slots slots, slots_of("topk_ids", ids, experts));
  OCTET_ASSIGN_OR_RETURN(const int32_t* const record,
                         need_record(call, {slots.ctas, experts, tokens}));
  OCTET_ASSIGN_OR_RETURN(
      uint8_t* const h_values,
      call.out<uint8_t>("h_values", Dtype::kE4m3, {kTileRows * slots.ctas, padded}, "topk_ids"));
  OCTET_ASSIGN_OR_RETURN(
      uint8_t* const h_scales,
      call.out<uint8_t>("h_scales", Dtype::kU8, {slots.ctas * padded * 4}, "topk_ids"));
  const Gemm1Args args{.x_quant = x.as<uint8_t>(),
                       .x_scale = x_scale.as<uint8_t>(),
                       .record = record,
                       .w13 = w13.as<uint8_t>(),
                       .w13_scale = w13_scale.as<uint8_t>(),
                       .clamp = clamp.as<float>(),
                       .tokens = tokens,
                       .top_k = slots.top_k,
                       .experts = experts,
                       .hidden = hidden,
                       .padded = padded,
                       .intermediate = intermediate,
                       .h_values = h_values,
                       .h_scales = h_scales};
  call.is_reference() ? reference::gemm1(args)
                      : cpu::gemm1(args, cpu::best_panel_dot(), call.executor);
  return {};
}

Status op_gemm2(OpCall& call) {
  OCTET_ASSIGN_OR_RETURN(const TensorView w2, call.need("w2", {Dtype::kU8}, {"E", "H", "Ip/2"}));
  const int64_t experts = w2.dim(0);
  const int64_t hidden = w2.dim(1);
  const int64_t padded = 2 * w2.dim(2);
  OCTET_RETURN_IF_ERROR(check_multiple("w2", "H", hidden, layouts::kPreparedPad));
  OCTET_RETURN_IF_ERROR(check_multiple("w2", "Ip", padded, layouts::kPreparedPad));
  OCTET_ASSIGN_OR_RETURN(const TensorView permuted,
                         call.need("permuted", {Dtype::kI32}, {"T", "k"}));
  OCTET_ASSIGN_OR_RETURN(const Slots slots, slots_of("permuted", permuted, experts));
  OCTET_ASSIGN_OR_RETURN(const TensorView h_values,
                         call.need("h_values", {Dtype::kE4m3}, {kTileRows * slots.ctas, padded}));
  OCTET_ASSIGN_OR_RETURN(const TensorView h_scales,
                         call.need("h_scales", {Dtype::kU8}, {slots.ctas * padded * 4}));
  OCTET_ASSIGN_OR_RETURN(const TensorView w2_scale,
                         call.need("w2_scale", {Dtype::kU8}, {experts, hidden, padded / kMxBlock}));
  OCTET_ASSIGN_OR_RETURN(const int32_t* const record, need_record(call, {slots.ctas, experts, -1}));
  OCTET_ASSIGN_OR_RETURN(
      Bf16* const rows,
      call.out<Bf16>("gemm2_rows", Dtype::kBf16, {slots.tokens * slots.top_k * kTileRows, hidden},
                     "permuted"));
  const Gemm2Args args{.h_values = h_values.as<uint8_t>(),
                       .h_scales = h_scales.as<uint8_t>(),
                       .record = record,
                       .w2 = w2.as<uint8_t>(),
                       .w2_scale = w2_scale.as<uint8_t>(),
                       .tokens = slots.tokens,
                       .top_k = slots.top_k,
                       .experts = experts,
                       .hidden = hidden,
                       .padded = padded,
                       .gemm2_rows = rows};
  call.is_reference() ? reference::gemm2(args)
                      : cpu::gemm2(args, cpu::best_panel_dot(), call.executor);
  return {};
}

Status op_finalize(OpCall& call) {
  OCTET_ASSIGN_OR_RETURN(const TensorView rows,
                         call.need("gemm2_rows", {Dtype::kBf16}, {"N", "H"}));
  OCTET_ASSIGN_OR_RETURN(const TensorView permuted,
                         call.need("permuted", {Dtype::kI32}, {"T", "k"}));
  const int64_t tokens = permuted.dim(0);
  const int64_t top_k = permuted.dim(1);
  const int64_t hidden = rows.dim(1);
  OCTET_ASSIGN_OR_RETURN(const TensorView weights,
                         call.need("topk_weights", {Dtype::kF32}, {tokens, top_k}));
  const int32_t* slots = permuted.as<int32_t>();
  const int32_t* beyond =
      std::find_if(slots, slots + tokens * top_k, [&](int32_t row) { return row >= rows.dim(0); });
  if (beyond != slots + tokens * top_k) {
    return invalid_argument(fmt::format("permuted: [{}, {}] is row {}, want below {}",
                                        (beyond - slots) / top_k, (beyond - slots) % top_k, *beyond,
                                        rows.dim(0)));
  }
  OCTET_ASSIGN_OR_RETURN(const TensorView shared,
                         call.maybe("shared", {Dtype::kBf16}, {tokens, hidden}));
  OCTET_ASSIGN_OR_RETURN(const float scale, call.number("scale", 1.0F));
  OCTET_ASSIGN_OR_RETURN(Bf16* const y,
                         call.out<Bf16>("y", Dtype::kBf16, {tokens, hidden}, "permuted"));
  const FinalizeArgs args{.rows = rows.as<Bf16>(),
                          .topk_weights = weights.as<float>(),
                          .permuted = slots,
                          .shared = shared.data == nullptr ? nullptr : shared.as<Bf16>(),
                          .scale = scale,
                          .tokens = tokens,
                          .top_k = top_k,
                          .hidden = hidden,
                          .y = y};
  call.is_reference() ? reference::finalize(args) : cpu::finalize(args, call.executor);
  return {};
}

}  // namespace octet::dispatch
