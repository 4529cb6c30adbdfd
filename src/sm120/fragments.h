// SPDX-License-Identifier: Apache-2.0
// Where a lane finds its part of a product's operands: PTX ISA 9.7.14.5 (mma.m16n8k32), 9.7.14.3 (block scales), 5.5.7 (swizzles).
// For host and device.
//
// Lane 4 g + t of a warp with weight rows 16 w ... + 15. The instruction gives k slots 4 t ... + 3 and 16 + 4 t ... + 3 of a block of 32 to
// the lane; inside a block a sum does not ask for an order, so the slots take elements 8 t + 0, 2, 4, 6 and 8 t + 1, 3, 5, 7: then four
// packed bytes of a weight row are the lane's, and two operations a register unpack them.
#pragma once

#include <cstdint>

#include "cuda/prepared_order.h"

namespace octet::sm120 {

// Byte of byte `at` of a tile of rows of 64 (128) bytes, on 1024, after the copy's swizzle.
OCTET_HOST_DEVICE constexpr int swizzled_64(int at) { return at ^ (at >> 3 & 0x30); }
OCTET_HOST_DEVICE constexpr int swizzled_128(int at) { return at ^ (at >> 3 & 0x70); }

// Elements 8 t ... + 7 of block `block` of a weight row: four bytes of a chunk's packed tile.
OCTET_HOST_DEVICE constexpr int weight_word_at(int row, int block, int t) {
  return swizzled_64(row * 64 + block * 16 + t * 4);
}
// The same of a token's codes: eight bytes.
OCTET_HOST_DEVICE constexpr int token_words_at(int token, int block, int t) {
  return swizzled_128(token * 128 + block * 32 + t * 8);
}
// Of a row's four scales in its atom.
OCTET_HOST_DEVICE constexpr int scale_word_at(int row) { return row % 32 * 16 + row / 32 * 4; }

// Eight e2m1 to the middle four bits of a byte each: elements 0, 2, 4, 6, and 1, 3, 5, 7.
OCTET_HOST_DEVICE constexpr uint32_t even_elements(uint32_t packed) {
  return (packed << 2) & 0x3C3C3C3CU;
}
OCTET_HOST_DEVICE constexpr uint32_t odd_elements(uint32_t packed) {
  return (packed >> 2) & 0x3C3C3C3CU;
}

// A lane's sums: 0 and 1 of stored row 16 w + g, 2 and 3 of row + 8, columns 2 t and 2 t + 1.
struct SumPlace {
  int stored_row, column;
};
OCTET_HOST_DEVICE constexpr SumPlace sum_place(int w, int lane, int i) {
  return {w * 16 + lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2};
}
// By semantics.md section 6 those rows are up and gate of one column of h, of a block's 64,
OCTET_HOST_DEVICE constexpr int hidden_column(int w, int lane) {
  return w / 2 * 16 + lane / 4 * 2 + w % 2;
}
// and of w2 two neighbouring columns of a row, of a block's 128: the first one.
OCTET_HOST_DEVICE constexpr int row_column(int w, int lane) {
  return w / 2 * 32 + lane / 4 * 4 + w % 2 * 2;
}

}  // namespace octet::sm120
