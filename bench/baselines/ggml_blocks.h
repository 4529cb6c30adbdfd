// SPDX-License-Identifier: Apache-2.0
// Rows of a matrix as GGUF stores them: a block's scales, then its codes, element j beside element j + G/2 in a byte.
//   MXFP4: 17 bytes for 32 elements.  NVFP4: 36 bytes for 64 elements, four groups of 16 with an E4M3 scale each.
#pragma once

#include <cstdint>

#include "peer.h"

namespace octet::baselines {

// The group of `block` elements of `row` from `col` on; returns the byte after it.
inline uint8_t* write_group(const Matrix& m, int64_t row, int64_t col, uint8_t* to) {
  const int64_t half = m.block / 2;
  for (int64_t j = 0; j < half; ++j) {
    *to++ = static_cast<uint8_t>(m.code(row, col + j) | m.code(row, col + half + j) << 4);
  }
  return to;
}

// All rows of `m`; returns the byte after them.
inline uint8_t* write_blocks(const Matrix& m, uint8_t* to) {
  const int64_t groups = m.block == 32 ? 1 : 4;
  for (int64_t row = 0; row < m.rows; ++row) {
    for (int64_t col = 0; col < m.cols; col += groups * m.block) {
      for (int64_t g = 0; g < groups; ++g) *to++ = m.scale(row, col + g * m.block);
      for (int64_t g = 0; g < groups; ++g) to = write_group(m, row, col + g * m.block, to);
    }
  }
  return to;
}

}  // namespace octet::baselines
