// SPDX-License-Identifier: Apache-2.0
// Panels from rows that lie anywhere: the 16 rows are copied one after another, their scales beside them, and packed by
// layouts/panel.h.
//
//   scratch = [panel][codes 16 x K/2][scales 16 x K/G]
#pragma once

#include <algorithm>
#include <cstring>

#include "layouts/panel.h"
#include "layouts/prepared.h"

namespace octet::cpu {

// Rows as they are stored, along K.
struct StoredRows {
  WeightFormat format;
  int64_t cols;    // that count
  int64_t stored;  // cols and the padding behind them
  int64_t code_bytes() const { return stored / 2; }
  int64_t scale_bytes() const { return stored / scale_block(format); }
  int64_t num_blocks() const { return ceil_div(cols, scale_block(format)); }
  int64_t panel_bytes() const { return layouts::panel_bytes(format, num_blocks()); }
  int64_t scratch_bytes() const {
    return panel_bytes() + layouts::kPanelRows * (code_bytes() + scale_bytes());
  }
};

// `count` rows into the scratch's rows `at` on: row(i, scales) writes row i's scales and returns its codes.
template <class Row>
layouts::WeightView gather_rows(const StoredRows& s, int64_t at, int64_t count, uint8_t* scratch,
                                const Row& row) {
  uint8_t* codes = scratch + s.panel_bytes() + at * s.code_bytes();
  uint8_t* scales =
      scratch + s.panel_bytes() + layouts::kPanelRows * s.code_bytes() + at * s.scale_bytes();
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(codes + i * s.code_bytes(), row(i, scales + i * s.scale_bytes()),
                static_cast<size_t>(s.code_bytes()));
  }
  return {.format = s.format,
          .codes = codes,
          .scales = scales,
          .code_stride = s.code_bytes(),
          .scale_stride = s.scale_bytes(),
          .rows = count,
          .cols = s.cols};
}

// gate_up panel `panel` of an expert with I columns; row(W13Row, scales) as above.
template <class Row>
const uint8_t* gather_gate_up(const StoredRows& s, int64_t intermediate, int64_t panel,
                              uint8_t* scratch, const Row& row) {
  constexpr int64_t kHalf = layouts::kPanelRows / 2;
  const int64_t count = std::min(kHalf, intermediate - panel * kHalf);
  const auto half = [&](bool is_gate) {
    return gather_rows(s, is_gate ? 0 : kHalf, count, scratch, [&](int64_t i, uint8_t* scales) {
      return row(layouts::W13Row{panel * kHalf + i, is_gate}, scales);
    });
  };
  layouts::ExpertWeights expert;
  expert.gate = half(true);
  expert.up = half(false);
  layouts::pack_gate_up_panel(expert, 0, scratch);
  return scratch;
}

// down panel `panel` of an expert with H outputs; row(output, scales) as above.
template <class Row>
const uint8_t* gather_down(const StoredRows& s, int64_t hidden, int64_t panel, uint8_t* scratch,
                           const Row& row) {
  const int64_t first = panel * layouts::kPanelRows;
  const int64_t count = std::min(layouts::kPanelRows, hidden - first);
  layouts::ExpertWeights expert;
  expert.down = gather_rows(s, 0, count, scratch,
                            [&](int64_t i, uint8_t* scales) { return row(first + i, scales); });
  layouts::pack_down_panel(expert, 0, scratch);
  return scratch;
}

// The sizes of panels from w13-like rows [2 I, H] and w2-like rows [H, I].
inline layouts::PanelSizes gathered_sizes(const StoredRows& w13, const StoredRows& w2) {
  return {.format = w13.format,
          .gate_up_panels = ceil_div(w2.cols, layouts::kPanelRows / 2),
          .down_panels = ceil_div(w13.cols, layouts::kPanelRows),
          .gate_up_blocks = w13.num_blocks(),
          .down_blocks = w2.num_blocks()};
}

}  // namespace octet::cpu
