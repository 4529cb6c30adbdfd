// SPDX-License-Identifier: Apache-2.0
// Where the scale of row m, column c stands; Ks columns, Kt = ceil(Ks / 4). semantics.md section 2.
//
//   linear   m * Ks + c
//   128x4    (m / 128) * (Kt * 512) + (c / 4) * 512 + (m % 32) * 16 + ((m % 128) / 32) * 4 + c % 4
//   8x4      (m / 8) * (Kt * 32) + (c / 4) * 32 + (m % 8) * 4 + c % 4
//
// A 128x4 atom is 512 bytes: 32 lines of 16, in each the four rows m, m + 32, m + 64, m + 96, four columns apiece.
// Padding rows and columns of a swizzled layout hold 0.
#pragma once

#include <cstdint>

#include "core/shape.h"

namespace octet::layouts {

struct ScaleCoord {
  int64_t row, col;
  friend bool operator==(const ScaleCoord&, const ScaleCoord&) = default;
};

// Bytes of a scale tensor, padding included.
constexpr int64_t scale_bytes(ScaleLayout layout, int64_t rows, int64_t cols) {
  switch (layout) {
    case ScaleLayout::kLinear:
      return rows * cols;
    case ScaleLayout::k128x4:
      return round_up(rows, 128) * round_up(cols, 4);
    case ScaleLayout::k8x4:
      return round_up(rows, 8) * round_up(cols, 4);
  }
  return 0;
}

constexpr int64_t scale_offset(ScaleLayout layout, int64_t cols, int64_t row, int64_t col) {
  const int64_t atoms = ceil_div(cols, 4);
  switch (layout) {
    case ScaleLayout::kLinear:
      return row * cols + col;
    case ScaleLayout::k128x4:
      return (row / 128 * atoms + col / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 + col % 4;
    case ScaleLayout::k8x4:
      return (row / 8 * atoms + col / 4) * 32 + row % 8 * 4 + col % 4;
  }
  return 0;
}

// The inverse of scale_offset; coordinates in the padding lie outside the tensor.
constexpr ScaleCoord scale_coord(ScaleLayout layout, int64_t cols, int64_t offset) {
  const int64_t atoms = ceil_div(cols, 4);
  switch (layout) {
    case ScaleLayout::kLinear:
      return {offset / cols, offset % cols};
    case ScaleLayout::k128x4: {
      const int64_t atom = offset / 512;
      const int64_t in = offset % 512;
      return {atom / atoms * 128 + in % 16 / 4 * 32 + in / 16, atom % atoms * 4 + in % 4};
    }
    case ScaleLayout::k8x4: {
      const int64_t atom = offset / 32;
      const int64_t in = offset % 32;
      return {atom / atoms * 8 + in / 4, atom % atoms * 4 + in % 4};
    }
  }
  return {0, 0};
}

}  // namespace octet::layouts
