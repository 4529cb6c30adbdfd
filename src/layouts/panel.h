// SPDX-License-Identifier: Apache-2.0
// Panels: the library's own streaming order for the CPU. One panel is 16 output rows by all of K, read strictly
// front to back; the bytes are the checkpoint's, rearranged.
//
//   panel   = groups of up to 4 scale blocks along K
//   group   = [scales: nb x 16 bytes][codes: nb tiles]          nb = blocks in the group, 4 but for the last one
//   scale   of block b in the group, lane r:                     byte b * 16 + r
//   tile    = one block: G / 8 lines of 64 bytes                 G = 32 (MXFP4) or 16 (NVFP4) elements a block
//   line i  lane r, byte b (at r * 4 + b):                       low nibble W[r][8 i + b], high W[r][8 i + 4 + b]
//
//   MXFP4 group of 4: 64 + 4 * 256 = 1088 bytes = 17 lines;      NVFP4: 64 + 4 * 128 = 576 bytes = 9 lines.
//
// K counts from the first scale block that the columns touch: a slice that begins inside a block has start_in_block()
// zero codes in front, and the end is filled with zero codes to a whole block. Lanes without a row have zero codes and
// scale code 0. So a panel of N = 16 rows and whole blocks has exactly the checkpoint's bytes.
//
// A slice holds every scale block that it touches whole, as does its neighbour on the other side of the cut: one scale
// serves the block, so the block is the least that can be streamed. Memory is at most 1.05 times the bytes of these
// blocks (rows times blocks times 17 for MXFP4, 9 for NVFP4) where the slice has at least two of them, I is a multiple
// of 8 and H of 128; the rest is the padding of a panel to 64 bytes. Of I = 640 over 8 ranks (80 columns, 2.5 blocks) a
// rank holds 3 blocks a row of down: 816 bytes a panel, 832 padded. Panels could share a line at their ends without
// padding, but the kernels read whole aligned lines, and a file packed before would no longer be read.
//
//   gate_up   panel p: lanes 0 ... 7 = gate rows 8 p + lane, lanes 8 ... 15 = up rows 8 p + lane - 8
//   down      panel p: lane r = output row 16 p + r
//   expert    = gate_up panels, then down panels, each panel padded to 64 bytes
#pragma once

#include <cstdint>
#include <vector>

#include "core/shape.h"
#include "layouts/expert_weights.h"

namespace octet::layouts {

constexpr int64_t kPanelRows = 16;
constexpr int64_t kPanelGroup = 4;  // scale blocks a group
constexpr int64_t kPanelAlignment = 64;

constexpr int64_t panel_tile_bytes(WeightFormat format) {
  return scale_block(format) / 2 * kPanelRows;
}

// Bytes of a panel of `num_blocks` scale blocks, without and with its padding to 64.
constexpr int64_t panel_payload_bytes(WeightFormat format, int64_t num_blocks) {
  return num_blocks * (kPanelRows + panel_tile_bytes(format));
}
constexpr int64_t panel_bytes(WeightFormat format, int64_t num_blocks) {
  return round_up(panel_payload_bytes(format, num_blocks), kPanelAlignment);
}

// Where the code of lane r, element k (from the first block's first element) stands: byte, and shift 0 or 4.
struct NibblePosition {
  int64_t byte;
  int shift;
  friend bool operator==(const NibblePosition&, const NibblePosition&) = default;
};
// The same from the beginning of the tile, k being that of the block.
constexpr NibblePosition panel_tile_position(int64_t lane, int64_t k) {
  return {k / 8 * 64 + lane * 4 + k % 4, k % 8 < 4 ? 0 : 4};
}
constexpr int64_t panel_group_offset(WeightFormat format, int64_t group) {
  return group * panel_payload_bytes(format, kPanelGroup);
}
constexpr int64_t panel_blocks_in_group(int64_t num_blocks, int64_t group) {
  const int64_t left = num_blocks - group * kPanelGroup;
  return left < kPanelGroup ? left : kPanelGroup;
}
constexpr NibblePosition panel_code_position(WeightFormat format, int64_t num_blocks, int64_t lane,
                                             int64_t k) {
  const int64_t block = k / scale_block(format);
  const int64_t group = block / kPanelGroup;
  const int64_t in_block = k % scale_block(format);
  const int64_t base = panel_group_offset(format, group) +
                       panel_blocks_in_group(num_blocks, group) * kPanelRows +
                       block % kPanelGroup * panel_tile_bytes(format);
  const NibblePosition in_tile = panel_tile_position(lane, in_block);
  return {base + in_tile.byte, in_tile.shift};
}
constexpr int64_t panel_scale_position(WeightFormat format, int64_t lane, int64_t block) {
  return panel_group_offset(format, block / kPanelGroup) + block % kPanelGroup * kPanelRows + lane;
}

// What a byte of a panel holds: the inverse of the two functions above. In a code byte `k` is the low nibble's element,
// k + 4 the high one's.
struct PanelByte {
  bool is_scale;
  int64_t lane;
  int64_t block;  // scale block
  int64_t k;      // codes only
};
PanelByte panel_byte(WeightFormat format, int64_t num_blocks, int64_t offset);

// The sizes of one expert in panels.
struct PanelSizes {
  WeightFormat format = WeightFormat::kMxfp4;
  int64_t gate_up_panels = 0, down_panels = 0;
  int64_t gate_up_blocks = 0, down_blocks = 0;  // scale blocks along K
  int64_t down_start = 0;                       // which element of its block h's column 0 is
  int64_t gate_up_panel_bytes() const { return panel_bytes(format, gate_up_blocks); }
  int64_t down_panel_bytes() const { return panel_bytes(format, down_blocks); }
  int64_t gate_up_bytes() const { return gate_up_panels * gate_up_panel_bytes(); }
  int64_t expert_bytes() const { return gate_up_bytes() + down_panels * down_panel_bytes(); }
};
PanelSizes panel_sizes(const ExpertWeights& expert);

// Codes and scales of one expert as the checkpoint has them: what reports call its weights. Of a slice, whose down columns
// begin at element `down_start` of a scale block, the codes of its own columns and the scale of every block it touches.
constexpr int64_t expert_weight_bytes(const LayerSpec& s, int64_t down_start) {
  const int64_t block = scale_block(s.weights);
  const int64_t down_end = down_start + s.intermediate;
  const int64_t gate_up = 2 * s.intermediate * (s.hidden / 2 + ceil_div(s.hidden, block));
  const int64_t down_codes = ceil_div(down_end, 2) - down_start / 2;  // bytes, two columns each
  return gate_up + s.hidden * (down_codes + ceil_div(down_end, block));
}

// One panel; `out` has panel_bytes() bytes and is overwritten whole.
void pack_gate_up_panel(const ExpertWeights& expert, int64_t panel, uint8_t* out);
void pack_down_panel(const ExpertWeights& expert, int64_t panel, uint8_t* out);
// All of an expert; `out` has expert_bytes().
void pack_expert(const ExpertWeights& expert, uint8_t* out);

// A matrix out of its panels, in a checkpoint's order: codes and scales byte for byte, but for those of columns that no view of the
// rank had, which are 0. Moved, not copied: the view points into the vectors.
struct UnpackedMatrix {
  std::vector<uint8_t> codes, scales;
  WeightView view;
};
struct UnpackedExpert {
  UnpackedMatrix gate, up, down;
};
UnpackedExpert unpack_expert(const PanelSizes& sizes, const uint8_t* panels, int64_t hidden,
                             int64_t intermediate);

}  // namespace octet::layouts
