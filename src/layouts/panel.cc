// SPDX-License-Identifier: Apache-2.0
#include "layouts/panel.h"

#include <algorithm>
#include <cstring>

namespace octet::layouts {
namespace {

// 8 codes of row `row` from element k on (counted from the first block's first element), element j in bits 4 j;
// zero outside the view's columns.
uint32_t eight_codes(const WeightView& w, int64_t row, int64_t k) {
  const int64_t first = k - w.start_in_block();
  if (w.first_col % 2 == 0 && first % 2 == 0 && first >= 0 && first + 8 <= w.cols) {
    uint32_t v = 0;
    std::memcpy(&v, w.codes + row * w.code_stride + (w.first_col + first) / 2, sizeof v);
    return v;
  }
  uint32_t v = 0;
  for (int64_t j = 0; j < 8; ++j) {
    const int64_t col = first + j;
    if (col >= 0 && col < w.cols) v |= static_cast<uint32_t>(w.code(row, col)) << (4 * j);
  }
  return v;
}

// Element j of 8 from bits 4 j to byte j % 4, low nibble for j < 4, high for j >= 4.
uint32_t split_halves(uint32_t v) {
  const uint32_t low = v & 0xFFFFU;     // elements 0 ... 3
  const uint32_t high = v >> 16;        // elements 4 ... 7
  const auto spread = [](uint32_t x) {  // nibble i to the low half of byte i
    x = (x | (x << 8)) & 0x00FF00FFU;
    return (x | (x << 4)) & 0x0F0F0F0FU;
  };
  return spread(low) | (spread(high) << 4);
}

// And back.
uint32_t join_halves(uint32_t v) {
  const auto gather = [](uint32_t x) {  // the low half of byte i to nibble i
    x &= 0x0F0F0F0FU;
    x = (x | (x >> 4)) & 0x00FF00FFU;
    return (x | (x >> 8)) & 0xFFFFU;
  };
  return gather(v) | (gather(v >> 4) << 16);
}

// Lanes lane ... lane + count - 1 of a panel from rows row ... of `w`.
void pack_lanes(const WeightView& w, int64_t row, int64_t count, int64_t lane, uint8_t* out) {
  const int64_t blocks = w.num_blocks();
  const int64_t block_elems = w.block();
  const int64_t first_scale = w.first_col / block_elems;
  for (int64_t r = 0; r < count; ++r) {
    const uint8_t* scales = w.scales + (row + r) * w.scale_stride + first_scale;
    for (int64_t b = 0; b < blocks; ++b) {
      out[panel_scale_position(w.format, lane + r, b)] = scales[b];
      uint8_t* line = out + panel_code_position(w.format, blocks, lane + r, b * block_elems).byte;
      for (int64_t i = 0; i < block_elems / 8; ++i) {
        const uint32_t v = split_halves(eight_codes(w, row + r, b * block_elems + 8 * i));
        std::memcpy(line + 64 * i, &v, sizeof v);
      }
    }
  }
}

// Where a matrix's rows stand among the panels of an expert.
struct PanelMatrix {
  const uint8_t* panels;  // panel 0 of its kind
  int64_t panel_bytes, num_blocks;
  int64_t rows_per_panel, first_lane;
};

UnpackedMatrix unpack(WeightFormat format, const PanelMatrix& from, int64_t rows, int64_t cols,
                      int64_t start) {
  const int64_t width = from.num_blocks * scale_block(format);
  UnpackedMatrix m;
  m.codes.resize(static_cast<size_t>(rows * width / 2));
  m.scales.resize(static_cast<size_t>(rows * from.num_blocks));
  for (int64_t row = 0; row < rows; ++row) {
    const uint8_t* panel = from.panels + row / from.rows_per_panel * from.panel_bytes;
    const int64_t lane = from.first_lane + row % from.rows_per_panel;
    uint8_t* codes = m.codes.data() + row * width / 2;
    for (int64_t b = 0; b < from.num_blocks; ++b) {
      const uint8_t* line =
          panel + panel_code_position(format, from.num_blocks, lane, b * scale_block(format)).byte;
      for (int64_t i = 0; i < scale_block(format) / 8; ++i, codes += sizeof(uint32_t)) {
        uint32_t v = 0;
        std::memcpy(&v, line + 64 * i, sizeof v);
        v = join_halves(v);
        std::memcpy(codes, &v, sizeof v);
      }
      m.scales[static_cast<size_t>(row * from.num_blocks + b)] =
          panel[panel_scale_position(format, lane, b)];
    }
  }
  m.view = {format, m.codes.data(), m.scales.data(), width / 2, from.num_blocks, rows, cols, start};
  return m;
}

}  // namespace

PanelByte panel_byte(WeightFormat format, int64_t num_blocks, int64_t offset) {
  const int64_t group = offset / panel_payload_bytes(format, kPanelGroup);
  const int64_t in_group = offset % panel_payload_bytes(format, kPanelGroup);
  const int64_t scale_bytes = panel_blocks_in_group(num_blocks, group) * kPanelRows;
  if (in_group < scale_bytes)
    return {true, in_group % kPanelRows, group * kPanelGroup + in_group / kPanelRows, 0};
  const int64_t in_codes = in_group - scale_bytes;
  const int64_t block = group * kPanelGroup + in_codes / panel_tile_bytes(format);
  const int64_t in_tile = in_codes % panel_tile_bytes(format);
  return {false, in_tile % 64 / 4, block,
          block * scale_block(format) + in_tile / 64 * 8 + in_tile % 4};
}

PanelSizes panel_sizes(const ExpertWeights& e) {
  return {.format = e.gate.format,
          .gate_up_panels = ceil_div(e.gate.rows, kPanelRows / 2),
          .down_panels = ceil_div(e.down.rows, kPanelRows),
          .gate_up_blocks = e.gate.num_blocks(),
          .down_blocks = e.down.num_blocks(),
          .down_start = e.down.start_in_block()};
}

void pack_gate_up_panel(const ExpertWeights& e, int64_t panel, uint8_t* out) {
  constexpr int64_t kHalf = kPanelRows / 2;
  const int64_t count = std::min(kHalf, e.gate.rows - panel * kHalf);
  std::memset(out, 0, static_cast<size_t>(panel_bytes(e.gate.format, e.gate.num_blocks())));
  pack_lanes(e.gate, panel * kHalf, count, 0, out);
  pack_lanes(e.up, panel * kHalf, count, kHalf, out);
}

void pack_down_panel(const ExpertWeights& e, int64_t panel, uint8_t* out) {
  const int64_t count = std::min(kPanelRows, e.down.rows - panel * kPanelRows);
  std::memset(out, 0, static_cast<size_t>(panel_bytes(e.down.format, e.down.num_blocks())));
  pack_lanes(e.down, panel * kPanelRows, count, 0, out);
}

void pack_expert(const ExpertWeights& e, uint8_t* out) {
  const PanelSizes s = panel_sizes(e);
  for (int64_t p = 0; p < s.gate_up_panels; ++p)
    pack_gate_up_panel(e, p, out + p * s.gate_up_panel_bytes());
  for (int64_t p = 0; p < s.down_panels; ++p) {
    pack_down_panel(e, p, out + s.gate_up_bytes() + p * s.down_panel_bytes());
  }
}

UnpackedExpert unpack_expert(const PanelSizes& s, const uint8_t* panels, int64_t hidden,
                             int64_t intermediate) {
  constexpr int64_t kHalf = kPanelRows / 2;
  const PanelMatrix gate{panels, s.gate_up_panel_bytes(), s.gate_up_blocks, kHalf, 0};
  const PanelMatrix up{panels, s.gate_up_panel_bytes(), s.gate_up_blocks, kHalf, kHalf};
  const PanelMatrix down{panels + s.gate_up_bytes(), s.down_panel_bytes(), s.down_blocks,
                         kPanelRows, 0};
  return {unpack(s.format, gate, intermediate, hidden, 0),
          unpack(s.format, up, intermediate, hidden, 0),
          unpack(s.format, down, hidden, intermediate, s.down_start)};
}

}  // namespace octet::layouts
