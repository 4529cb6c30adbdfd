// SPDX-License-Identifier: Apache-2.0
// Where things stand, written again from semantics.md (sections 2, 5, 6, 7, 10): the judge of layouts/ and routing/ does
// not use their formulas.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/shape.h"

namespace octet::reference {

// ---- scale layouts, section 2

inline int64_t scale_index(ScaleLayout layout, int64_t cols, int64_t m, int64_t c) {
  const int64_t kt = (cols + 3) / 4;
  if (layout == ScaleLayout::k128x4) {
    return (m / 128) * (kt * 512) + (c / 4) * 512 + (m % 32) * 16 + ((m % 128) / 32) * 4 + c % 4;
  }
  if (layout == ScaleLayout::k8x4) return (m / 8) * (kt * 32) + (c / 4) * 32 + (m % 8) * 4 + c % 4;
  return m * cols + c;
}

// Bytes of a layout, whole atoms.
inline int64_t scale_size(ScaleLayout layout, int64_t rows, int64_t cols) {
  if (layout == ScaleLayout::kLinear) return rows * cols;
  const int64_t atom_rows = layout == ScaleLayout::k128x4 ? 128 : 8;
  return (rows + atom_rows - 1) / atom_rows * atom_rows * ((cols + 3) / 4 * 4);
}

// ---- the routing record, section 5, and the sort tables, section 10

// Tiles that any routing of T * k slots over E experts can need.
inline int64_t most_tiles(int64_t slots, int64_t experts, int64_t tile) {
  return slots <= experts ? slots : (slots + (tile - 1) * experts) / tile;
}

// Where the tables of a record begin, in words.
struct RecordOffsets {
  int64_t expert, limit, token, end;
  explicit RecordOffsets(int64_t ctas) {
    const int64_t c = (ctas + 3) / 4 * 4;
    expert = 4;
    limit = expert + c;
    token = limit + c;
    end = token + 8 * ctas;
  }
};

// The exclusive end of a tile's rows, counted over all tiles; its expert has `count` rows from row `first` on.
inline int32_t tile_limit(int64_t tile, int64_t rows, int64_t first, int64_t count) {
  return static_cast<int32_t>(std::min((tile + 1) * rows, first + count));
}

// ---- prepared weights, section 6

// What stored row n of w13 holds.
struct W13Place {
  bool is_gate;
  int64_t column;  // of h
};
inline W13Place w13_place(int64_t n) {
  const int64_t b = n / 32;
  const int64_t q = n % 32 / 8;
  const int64_t r = n % 8;
  return {q % 2 == 1, 16 * b + 2 * r + q / 2};
}

// The output channel in stored row n of w2.
inline int64_t w2_channel(int64_t n) { return 32 * (n / 32) + 4 * (n % 8) + n % 32 / 8; }

// Byte of h's scale: permuted row, block of 32 columns. section 7
inline int64_t h_scale_index(int64_t row, int64_t block, int64_t padded) {
  const int64_t tile = row / 8;
  const int64_t r = row % 8;
  return tile * (padded * 4) + (block / 4) * 512 + r * 16 + block % 4;
}

// ---- the grouped MoE's w1: 64 rows of up, then their 64 of gate, section 10

inline int64_t grouped_up_row(int64_t column) { return column / 64 * 128 + column % 64; }
inline int64_t grouped_gate_row(int64_t column) { return grouped_up_row(column) + 64; }

}  // namespace octet::reference
