// SPDX-License-Identifier: Apache-2.0
#include "cpu/experts.h"

#include <algorithm>
#include <functional>

#include "core/carver.h"
#include "cpu/expert_gemm.h"
#include "cpu/quantize.h"
#include "routing/permute.h"

namespace octet::cpu {
namespace {

// Everything a call keeps between its steps, in the caller's memory.
struct Workspace {
  int32_t *row_expert, *row_limit, *row_slot,
      *num_rows;                 // routing::sort with a tile of 1: [T k], [1]
  ExpertRun* runs;               // [min(T k, local experts)]
  const float** x_rows;          // [T k] rows of x, in the order of `permuted`
  float** h_rows;                // [T k]
  Bf16** y_rows;                 // [T k]
  float* x;                      // [T, gate_up_blocks * G]
  float* h;                      // [T k, down_blocks * G]
  uint8_t* x_integers;           // [T, row_bytes]
  uint8_t* h_integers;           // [T k, row_bytes]
  const uint8_t** integer_rows;  // [T k] of x, then of h
  Hold* token_hold;              // [T] of x
  Hold* hold;                    // [T k] of x, then of h
  uint8_t* x_scale;              // [T, H/32], MXFP8 only
  uint8_t* h_scale;              // [T k, ceil(I/32)], MXFP8 only
  std::byte* scratch;            // [threads, panel_scratch_stride]
};

struct Problem {
  const LayerSpec& spec;
  const PanelSource& weights;
  int64_t tokens, top_k;
  int num_threads;
  int64_t slots() const { return tokens * top_k; }
  int64_t x_width() const { return weights.sizes().gate_up_blocks * scale_block(spec.weights); }
  int64_t h_width() const { return weights.sizes().down_blocks * scale_block(spec.weights); }
  IntegerLayout x_integers() const {
    return {spec.weights, kXPlanes, weights.sizes().gate_up_blocks};
  }
  IntegerLayout h_integers() const {
    return {spec.weights, h_planes(spec.activations, spec.precision), weights.sizes().down_blocks};
  }
  bool is_mxfp8() const { return spec.activations == Activations::kMxfp8; }
  int64_t x_scales() const { return is_mxfp8() ? spec.hidden / kMxBlock : 0; }  // a row
  int64_t h_scales() const { return is_mxfp8() ? ceil_div(spec.intermediate, kMxBlock) : 0; }
};

Workspace carve(const Problem& p, Carver<64>& carver) {
  Workspace w;
  w.row_expert = carver.take<int32_t>(p.slots());
  w.row_limit = carver.take<int32_t>(p.slots());
  w.row_slot = carver.take<int32_t>(p.slots());
  w.num_rows = carver.take<int32_t>(1);
  w.runs = carver.take<ExpertRun>(std::min(p.slots(), p.spec.local_experts));
  w.x_rows = carver.take<const float*>(p.slots());
  w.h_rows = carver.take<float*>(p.slots());
  w.y_rows = carver.take<Bf16*>(p.slots());
  w.x = carver.take<float>(p.tokens * p.x_width());
  w.h = carver.take<float>(p.slots() * p.h_width());
  w.x_scale = carver.take<uint8_t>(p.tokens * p.x_scales());
  w.h_scale = carver.take<uint8_t>(p.slots() * p.h_scales());
  w.x_integers = carver.take<uint8_t>(p.tokens * p.x_integers().row_bytes());
  w.h_integers = carver.take<uint8_t>(p.slots() * p.h_integers().row_bytes());
  w.integer_rows = carver.take<const uint8_t*>(p.slots());
  w.token_hold = carver.take<Hold>(p.tokens);
  w.hold = carver.take<Hold>(p.slots());
  w.scratch = carver.take<std::byte>(p.num_threads * panel_scratch_stride(p.weights));
  return w;
}

// Rows of x by expert; returns the runs.
std::span<const ExpertRun> sort_rows(const ExpertsArgs& a, const Problem& p, const Workspace& w) {
  routing::sort({.topk_ids = {a.topk_ids},
                 .tokens = p.tokens,
                 .top_k = p.top_k,
                 .tile = 1,
                 .local_offset = p.spec.first_expert,
                 .local_experts = p.spec.local_experts,
                 .tile_to_expert = w.row_expert,
                 .tile_to_mn_limit = w.row_limit,
                 .expanded_to_permuted = a.permuted,
                 .permuted_to_expanded = w.row_slot,
                 .num_tiles = w.num_rows});
  size_t num_runs = 0;
  for (int64_t row = 0; row < *w.num_rows; ++row) {
    if (row == 0 || w.row_expert[row] != w.row_expert[row - 1])
      w.runs[num_runs++] = {w.row_expert[row], row, 0};
    ++w.runs[num_runs - 1].count;
    w.x_rows[row] = w.x + w.row_slot[row] / p.top_k * p.x_width();
    w.h_rows[row] = w.h + row * p.h_width();
    w.y_rows[row] = a.rows + row * p.spec.hidden;
  }
  return {w.runs, num_runs};
}

// x to MXFP8 and back to binary32, in pieces so that one row keeps several threads busy.
void quantize_x(const ExpertsArgs& a, const Problem& p, const Workspace& w, Executor& executor) {
  constexpr int64_t kPiece = 1024;
  const int64_t hidden = p.spec.hidden;
  const int64_t pieces = ceil_div(hidden, kPiece);
  parallel_for(executor, p.tokens * pieces, [&](int64_t unit, int) {
    const int64_t row = unit / pieces;
    const int64_t col = unit % pieces * kPiece;
    const int64_t count = std::min(kPiece, hidden - col);
    uint8_t codes[kPiece];
    uint8_t* const scales = w.x_scale + (row * hidden + col) / kMxBlock;
    quantize_x_row(a.x + row * hidden + col, count, codes, scales);
    dequantize_mxfp8_blocks(codes, scales, count, w.x + row * p.x_width() + col);
    if (a.trace.x_quant != nullptr) std::copy_n(codes, count, a.trace.x_quant + row * hidden + col);
    if (a.trace.x_scale != nullptr) {
      std::copy_n(scales, count / kMxBlock, a.trace.x_scale + (row * hidden + col) / kMxBlock);
    }
  });
  for (int64_t row = 0; row < p.tokens; ++row) {
    w.token_hold[row] =
        settle_mxfp8_row(w.x_scale + row * p.x_scales(), hidden, w.x + row * p.x_width());
  }
}

// x as the kernels take it.
void hold_x(const ExpertsArgs& a, const Problem& p, const Workspace& w, const ProductArgs& product,
            Executor& executor) {
  if (p.is_mxfp8()) {
    quantize_x(a, p, w, executor);
  } else {
    widen_bf16({a.x, p.tokens, p.spec.hidden}, p.x_width(), w.x, executor);
    std::fill_n(w.token_hold, p.tokens, Hold::kNone);
  }
  const IntegerLayout layout = p.x_integers();
  encode_integers(product.dot, layout, product.runs,
                  {.x = w.x, .rows = p.tokens, .out = w.x_integers, .hold = w.token_hold},
                  executor);
  const auto token_of = [&](int64_t row) { return w.row_slot[row] / p.top_k; };
  for (int64_t row = 0; row < *w.num_rows; ++row) w.hold[row] = w.token_hold[token_of(row)];
  find_integer_rows(product.dot, layout, product.runs, w.x_integers, token_of, w.integer_rows);
}

// A piece of a row of h, up to 32 columns.
struct Columns {
  int64_t row, col, count;
};

// To MXFP8 and back, in place; `scale` is the piece's in Workspace::h_scale.
void quantize_h(const ExpertsArgs& a, Columns at, float* h, uint8_t* scale) {
  const auto [row, col, count] = at;
  const int64_t intermediate = a.spec->intermediate;
  uint8_t codes[kMxBlock];
  quantize_h_row(h, count, codes, scale);
  dequantize_mxfp8_blocks(codes, scale, count, h);
  if (a.trace.h_values != nullptr)
    std::copy_n(codes, count, a.trace.h_values + row * intermediate + col);
  if (a.trace.h_scales != nullptr)
    a.trace.h_scales[row * ceil_div(intermediate, kMxBlock) + col / kMxBlock] = *scale;
}

// To BF16 and back.
void round_h(const ExpertsArgs& a, Columns at, float* h) {
  const auto [row, col, count] = at;
  for (int64_t c = 0; c < count; ++c) {
    const Bf16 rounded = formats::bf16_from_f32(h[c]);
    h[c] = formats::bf16_to_f32(rounded);
    if (a.trace.h != nullptr) a.trace.h[row * a.spec->intermediate + col + c] = rounded;
  }
}

// h as the kernels take it, once all pieces are there; its column 0 stands at `start`.
void hold_h(const Problem& p, const Workspace& w, int64_t start, const ProductArgs& product,
            Executor& executor) {
  for (int64_t row = 0; row < *w.num_rows; ++row) {
    w.hold[row] = p.is_mxfp8() ? settle_mxfp8_row(w.h_scale + row * p.h_scales(),
                                                  p.spec.intermediate, w.h_rows[row] + start)
                               : Hold::kNone;
  }
  const IntegerLayout layout = p.h_integers();
  encode_integers(product.dot, layout, product.runs,
                  {.x = w.h,
                   .rows = *w.num_rows,
                   .out = w.h_integers,
                   .hold = w.hold,
                   .must_be_exact = p.is_mxfp8() && start != 0},
                  executor);
  find_integer_rows(product.dot, layout, product.runs, w.h_integers, std::identity{},
                    w.integer_rows);
}

}  // namespace

int64_t experts_workspace_bytes(const LayerSpec& spec, const PanelSource& weights, int64_t tokens,
                                int64_t top_k, int num_threads) {
  Carver<64> carver(nullptr);
  carve({spec, weights, tokens, top_k, num_threads}, carver);
  return carver.bytes();
}

void run_experts(const ExpertsArgs& a, PanelDot dot, Executor& executor) {
  const LayerSpec& spec = *a.spec;
  const Problem p{spec, *a.weights, a.tokens, a.top_k, executor.num_threads()};
  if (p.slots() == 0) return;
  Carver<64> carver(a.workspace);
  const Workspace w = carve(p, carver);

  ProductArgs product{.weights = a.weights,
                      .dot = dot.of(spec.weights, kXPlanes),
                      .runs = sort_rows(a, p, w),
                      .x = w.x_rows,
                      .integers = w.integer_rows,
                      .hold = w.hold,
                      .scratch = w.scratch};
  hold_x(a, p, w, product, executor);
  const HiddenArgs hidden{.intermediate = spec.intermediate,
                          .alpha = spec.swiglu.alpha,
                          .beta = spec.swiglu.beta,
                          .h = w.h_rows,
                          .start = a.weights->sizes().down_start,
                          .width = p.h_width()};
  gate_up(product, hidden, executor, [&](int64_t row, int64_t col, int64_t count) {
    float* h = w.h_rows[row] + hidden.start + col;
    const Columns at{row, col, count};
    p.is_mxfp8() ? quantize_h(a, at, h, w.h_scale + row * p.h_scales() + col / kMxBlock)
                 : round_h(a, at, h);
  });
  product.dot = dot.of(spec.weights, p.h_integers().planes);
  hold_h(p, w, hidden.start, product, executor);
  product.x = w.h_rows;
  down(product, spec.hidden, w.y_rows, executor);
}

}  // namespace octet::cpu
