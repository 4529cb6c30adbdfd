// SPDX-License-Identifier: Apache-2.0
// gemm1 and gemm2 on prepared tensors, row by row of a routing record. semantics.md sections 7 and 8.
#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "cpu/expert_gemm.h"
#include "cpu/ops.h"
#include "cpu/quantize.h"
#include "cpu/scratch.h"
#include "layouts/prepared.h"
#include "routing/record.h"

namespace octet::cpu {
namespace {

constexpr int kPlanes = h_planes(Activations::kMxfp8, Precision::kFast);
static_assert(kPlanes == kXPlanes);

// The rows below the tiles' limits, and the runs of neighbouring tiles that share an expert.
struct RoutedRows {
  std::vector<ExpertRun> runs;
  std::vector<int64_t> permuted;  // row of h and of gemm2_rows
  std::vector<int64_t> token;
};

// The record comes from the caller: whatever it says, no expert, row or token outside the tensors is touched.
RoutedRows rows_of(const int32_t* record, int64_t tokens, int64_t top_k, int64_t experts) {
  const int64_t ctas = routing::max_ctas(tokens, top_k, experts);
  const routing::RecordView view(record, ctas);
  RoutedRows rows;
  for (int64_t tile = 0; tile < std::min(view.num_tiles, ctas); ++tile) {
    const int64_t expert = view.expert[tile];
    const int64_t first = tile * kTileRows;
    const int64_t end = std::min<int64_t>(view.limit[tile], first + kTileRows);
    if (expert < 0 || expert >= experts || end <= first) continue;
    if (rows.runs.empty() || rows.runs.back().expert != expert)
      rows.runs.push_back({expert, std::ssize(rows.permuted), 0});
    rows.runs.back().count += end - first;
    for (int64_t row = first; row < end; ++row) {
      rows.permuted.push_back(row);
      rows.token.push_back(std::clamp<int64_t>(view.token[row], 0, tokens - 1));
    }
  }
  return rows;
}

// Columns from `intermediate` on of a row of h: zeros, and code 127 for the blocks that hold nothing else.
void store_hidden_padding(const Gemm1Args& a, int64_t row) {
  std::memset(a.h_values + row * a.padded + a.intermediate, 0,
              static_cast<size_t>(a.padded - a.intermediate));
  for (int64_t b = ceil_div(a.intermediate, kMxBlock); b < a.padded / kMxBlock; ++b)
    a.h_scales[layouts::h_scale_offset(row, b, a.padded)] = 127;
}

}  // namespace

void gemm1(const Gemm1Args& a, PanelDot dot, Executor& executor) {
  const RoutedRows rows = rows_of(a.record, a.tokens, a.top_k, a.experts);
  const PreparedPanels weights({a.w13, a.w13_scale, nullptr, nullptr, a.clamp, a.experts, a.hidden,
                                a.padded, a.intermediate});
  PanelScratch scratch(weights, executor);
  const auto num_rows = std::ssize(rows.permuted);
  const auto x = uninitialised_floats(a.tokens * a.hidden);
  const auto h = uninitialised_floats(num_rows * a.padded);
  std::vector<Hold> token_hold(static_cast<size_t>(a.tokens));
  widen_mxfp8({a.x_quant, a.x_scale, a.tokens, a.hidden}, x.get(), token_hold.data(), executor);
  const RowDot row_dot = dot.of(WeightFormat::kMxfp4, kPlanes);
  const IntegerLayout layout{WeightFormat::kMxfp4, kPlanes, a.hidden / kMxBlock};
  const auto token_of = [&](int64_t i) { return rows.token[static_cast<size_t>(i)]; };
  const IntegerScratch integers(row_dot, layout, rows.runs,
                                {.x = x.get(), .rows = a.tokens, .hold = token_hold.data()},
                                token_of, executor);
  std::vector<const float*> x_rows;
  std::vector<Hold> hold;
  std::vector<float*> h_rows;
  for (int64_t i = 0; i < num_rows; ++i) {
    const int64_t token = token_of(i);
    x_rows.push_back(x.get() + token * a.hidden);
    hold.push_back(token_hold[static_cast<size_t>(token)]);
    h_rows.push_back(h.get() + i * a.padded);
  }
  const ProductArgs product{.weights = &weights,
                            .dot = row_dot,
                            .runs = rows.runs,
                            .x = x_rows.data(),
                            .integers = integers.rows(),
                            .hold = hold.data(),
                            .scratch = scratch.data()};
  const HiddenArgs hidden{.intermediate = a.intermediate, .h = h_rows.data(), .width = a.padded};
  gate_up(product, hidden, executor, [&](int64_t i, int64_t col, int64_t count) {
    const int64_t row = rows.permuted[static_cast<size_t>(i)];
    const int64_t scale_at = layouts::h_scale_offset(row, col / kMxBlock, a.padded);
    quantize_h_row(h_rows[static_cast<size_t>(i)] + col, count, a.h_values + row * a.padded + col,
                   a.h_scales + scale_at);
    if (col == 0) store_hidden_padding(a, row);
  });
}

void gemm2(const Gemm2Args& a, PanelDot dot, Executor& executor) {
  const RoutedRows rows = rows_of(a.record, a.tokens, a.top_k, a.experts);
  const PreparedPanels weights(
      {nullptr, nullptr, a.w2, a.w2_scale, nullptr, a.experts, a.hidden, a.padded, a.padded});
  PanelScratch scratch(weights, executor);
  const auto num_rows = std::ssize(rows.permuted);
  const auto h = uninitialised_floats(num_rows * a.padded);
  const int64_t blocks = a.padded / kMxBlock;
  std::vector<const float*> h_rows;
  std::vector<Bf16*> y_rows;
  for (int64_t i = 0; i < num_rows; ++i) {
    h_rows.push_back(h.get() + i * a.padded);
    y_rows.push_back(a.gemm2_rows + rows.permuted[static_cast<size_t>(i)] * a.hidden);
  }
  std::vector<Hold> hold(static_cast<size_t>(num_rows));
  parallel_for(executor, num_rows, [&](int64_t i, int) {
    const int64_t row = rows.permuted[static_cast<size_t>(i)];
    std::vector<uint8_t> scales(static_cast<size_t>(blocks));
    for (int64_t b = 0; b < blocks; ++b)
      scales[static_cast<size_t>(b)] = a.h_scales[layouts::h_scale_offset(row, b, a.padded)];
    float* const to = h.get() + i * a.padded;
    dequantize_mxfp8_blocks(a.h_values + row * a.padded, scales.data(), a.padded, to);
    hold[static_cast<size_t>(i)] = settle_mxfp8_row(scales.data(), a.padded, to);
  });
  const RowDot row_dot = dot.of(WeightFormat::kMxfp4, kPlanes);
  const IntegerLayout layout{WeightFormat::kMxfp4, kPlanes, blocks};
  const IntegerScratch integers(row_dot, layout, rows.runs,
                                {.x = h.get(), .rows = num_rows, .hold = hold.data()},
                                std::identity{}, executor);
  const ProductArgs product{.weights = &weights,
                            .dot = row_dot,
                            .runs = rows.runs,
                            .x = h_rows.data(),
                            .integers = integers.rows(),
                            .hold = hold.data(),
                            .scratch = scratch.data()};
  down(product, a.hidden, y_rows.data(), executor);
}

}  // namespace octet::cpu
