// SPDX-License-Identifier: Apache-2.0
#include "compare.h"

#include <utility>
#include <vector>

#include "formats/bf16.h"
#include "layouts/panel.h"

namespace octet::tools {
namespace {

// Where a matrix's rows stand among the panels of an expert.
struct PanelMatrix {
  const uint8_t* panels;  // panel 0 of its kind
  int64_t panel_bytes, num_blocks;
  int64_t rows_per_panel, first_lane;
};

// A matrix out of its panels, in checkpoint order.
struct Matrix {
  std::vector<uint8_t> codes, scales;
  layouts::WeightView view;

  Matrix(WeightFormat format, const PanelMatrix& from, int64_t rows, int64_t cols, int64_t start) {
    const int64_t width = from.num_blocks * scale_block(format);
    codes.resize(static_cast<size_t>(rows * width / 2));
    scales.resize(static_cast<size_t>(rows * from.num_blocks));
    for (int64_t row = 0; row < rows; ++row) read_row(format, from, row, width);
    view = {format, codes.data(), scales.data(), width / 2, from.num_blocks, rows, cols, start};
  }

 private:
  void read_row(WeightFormat format, const PanelMatrix& from, int64_t row, int64_t width) {
    const uint8_t* panel = from.panels + row / from.rows_per_panel * from.panel_bytes;
    const int64_t lane = from.first_lane + row % from.rows_per_panel;
    for (int64_t k = 0; k < width; ++k) {
      const auto at = layouts::panel_code_position(format, from.num_blocks, lane, k);
      const int code = (panel[at.byte] >> at.shift) & 15;
      uint8_t& pair = codes[static_cast<size_t>((row * width + k) / 2)];
      pair = static_cast<uint8_t>(pair | code << (k % 2 * 4));
    }
    for (int64_t b = 0; b < from.num_blocks; ++b) {
      scales[static_cast<size_t>(row * from.num_blocks + b)] =
          panel[layouts::panel_scale_position(format, lane, b)];
    }
  }
};

}  // namespace

struct ExpertReader::Unpacked {
  Matrix gate, up, down;
};

ExpertReader::ExpertReader(const checkpoint::LayerTensors& layer) : layer_(layer) {}
ExpertReader::~ExpertReader() = default;

layouts::ExpertWeights ExpertReader::operator()(int64_t local_expert) {
  layouts::ExpertWeights expert = layer_.experts[static_cast<size_t>(local_expert)];
  if (!layer_.packed) return expert;
  auto& slot = unpacked_[local_expert];
  if (!slot) {
    const layouts::PanelSizes& s = layer_.packed->sizes;
    const uint8_t* base = layer_.packed->base + local_expert * layer_.packed->expert_stride;
    constexpr int64_t kHalf = layouts::kPanelRows / 2;
    const PanelMatrix gate{base, s.gate_up_panel_bytes(), s.gate_up_blocks, kHalf, 0};
    const PanelMatrix up{base, s.gate_up_panel_bytes(), s.gate_up_blocks, kHalf, kHalf};
    const PanelMatrix down{base + s.gate_up_bytes(), s.down_panel_bytes(), s.down_blocks,
                           layouts::kPanelRows, 0};
    const int64_t h = layer_.spec.hidden;
    const int64_t i = layer_.spec.intermediate;
    slot = std::make_unique<Unpacked>(Unpacked{Matrix(s.format, gate, i, h, 0),
                                               Matrix(s.format, up, i, h, 0),
                                               Matrix(s.format, down, h, i, s.down_start)});
  }
  expert.gate = slot->gate.view;
  expert.up = slot->up.view;
  expert.down = slot->down.view;
  return expert;
}

Comparison compare_with_reference(const checkpoint::LayerTensors& layer, const CallView& call,
                                  const Progress& progress) {
  ExpertReader experts(layer);
  reference::LayerArgs args;
  args.spec = layer.spec;
  args.tokens = call.tokens;
  args.top_k = call.top_k;
  args.x = call.x;
  args.topk_ids = call.topk_ids;
  args.topk_weights = call.topk_weights;
  args.expert = [&experts](int64_t local_expert) { return experts(local_expert); };
  args.made = call.made;
  args.sums = call.sums;
  Comparison c;
  const std::vector<reference::Span> want = reference::layer(args, progress, &c.h);
  c.worst = reference::compare(want, call.y, call.tokens, layer.spec.hidden);
  c.num_elems = static_cast<int64_t>(want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    const Bf16 rounded = formats::bf16_from_f64(want[i].value);
    c.num_exact += formats::bf16_to_f32(call.y[i]) == formats::bf16_to_f32(rounded) ? 1 : 0;
  }
  return c;
}

}  // namespace octet::tools
