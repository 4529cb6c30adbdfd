// SPDX-License-Identifier: Apache-2.0
#include "trace.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fmt/format.h>
#include <utility>

#include "layouts/prepared.h"
#include "routing/record.h"

namespace octet::tools {
namespace {

// A slot that this rank computed: its row in the layer's order and in the record's.
struct SlotRow {
  int64_t slot, row, record_row;
};

Tensor local_ids(const LayerSpec& spec, const Tensor& topk_ids) {
  Tensor ids(Dtype::kI32, topk_ids.dims());
  for (int64_t i = 0; i < num_elems(topk_ids.dims()); ++i) {
    const int64_t id = topk_ids.as<int32_t>()[i] - spec.first_expert;
    ids.as<int32_t>()[i] = id >= 0 && id < spec.local_experts ? static_cast<int32_t>(id) : -1;
  }
  return ids;
}

std::vector<SlotRow> slot_rows(const LayerOutput& out, const Tensor& record_order) {
  std::vector<SlotRow> rows;
  for (int64_t slot = 0; slot < num_elems(record_order.dims()); ++slot) {
    const int32_t row = out.permuted.as<int32_t>()[slot];
    const int32_t record_row = record_order.as<int32_t>()[slot];
    if (row >= 0 && record_row >= 0) rows.push_back({slot, row, record_row});
  }
  return rows;
}

void copy_row(const Tensor& from, int64_t from_row, Tensor& to, int64_t to_row) {
  const size_t from_bytes = static_cast<size_t>(from.dims()[1]) * dtype_bytes(from.dtype());
  const size_t to_bytes = static_cast<size_t>(to.dims()[1]) * dtype_bytes(to.dtype());
  std::memcpy(to.data() + static_cast<size_t>(to_row) * to_bytes,
              from.data() + static_cast<size_t>(from_row) * from_bytes, from_bytes);
}

// h in the record's rows: columns from I on are 0, the scales of whole padding blocks 127.
void add_quantised_h(const LayerSpec& spec, const LayerOutput& out, int64_t ctas,
                     const std::vector<SlotRow>& rows, NamedTensors& tensors) {
  constexpr uint8_t kPaddingScale = 127;
  const int64_t padded = layouts::padded_intermediate(spec.intermediate);
  const int64_t blocks = out.h_scales.dims()[1];
  Tensor values(Dtype::kE4m3, {kTileRows * ctas, padded});
  Tensor scales(Dtype::kU8, {ctas * padded * 4});
  for (const SlotRow& r : rows) {
    copy_row(out.h_values, r.row, values, r.record_row);
    for (int64_t b = 0; b < padded / kMxBlock; ++b) {
      scales.as<uint8_t>()[layouts::h_scale_offset(r.record_row, b, padded)] =
          b < blocks ? out.h_scales.as<uint8_t>()[r.row * blocks + b] : kPaddingScale;
    }
  }
  tensors["h_values"] = std::move(values);
  tensors["h_scales"] = std::move(scales);
}

}  // namespace

std::string add_trace(const LayerSpec& spec, LayerOutput& out, NamedTensors& tensors) {
  if (out.logits.data() != nullptr) tensors["logits"] = std::move(out.logits);
  const bool quantised = spec.activations == Activations::kMxfp8;
  if (quantised) {
    tensors["x_quant"] = std::move(out.x_quant);
    tensors["x_scale"] = std::move(out.x_scale);
  }
  const int64_t tokens = out.topk_ids.dims()[0];
  const int64_t top_k = out.top_k();
  if (spec.local_experts > routing::kRouteMaxExperts || top_k > layouts::kPreparedMaxTopK) {
    return fmt::format(
        "--trace leaves out permuted, record, h and gemm2_rows: {} experts, {} a row; the record "
        "takes at most {} and {}",
        spec.local_experts, top_k, routing::kRouteMaxExperts, layouts::kPreparedMaxTopK);
  }
  const Tensor ids = local_ids(spec, out.topk_ids);
  const int64_t ctas = routing::max_ctas(tokens, top_k, spec.local_experts);
  Tensor permuted(Dtype::kI32, {tokens, top_k});
  Tensor record(Dtype::kI32, {routing::record_words(ctas)});
  routing::route({{ids.data(), false},
                  tokens,
                  top_k,
                  spec.local_experts,
                  permuted.as<int32_t>(),
                  record.as<int32_t>()});
  const std::vector<SlotRow> rows = slot_rows(out, permuted);
  Tensor gemm2_rows(Dtype::kBf16, {tokens * top_k * kTileRows, spec.hidden});
  for (const SlotRow& r : rows) copy_row(out.rows, r.row, gemm2_rows, r.record_row);
  if (quantised) {
    add_quantised_h(spec, out, ctas, rows, tensors);
  } else {
    Tensor h(Dtype::kBf16, out.h.dims());
    for (const SlotRow& r : rows) copy_row(out.h, r.row, h, r.slot);
    tensors["h"] = std::move(h);
  }
  tensors["permuted"] = std::move(permuted);
  tensors["record"] = std::move(record);
  tensors["gemm2_rows"] = std::move(gemm2_rows);
  return {};
}

}  // namespace octet::tools
