// SPDX-License-Identifier: Apache-2.0
// MXFP8 activations in the order that the tensor cores read: one record for every 64 k of up to 8 rows.
//
//   x rows 0 ... T-1, k 64 r ... + 63 ──► record r:  4 matrices [16 bytes of k][R rows][16]   scales f32 [2 blocks of 32 k][R]
//                                                    64 R bytes                               8 R bytes
//
// R is T (of h: the rows of its tile) rounded up to an even number, so records stay multiples of 16 bytes; a padding row's codes and scales are never looked at. K is
// rounded up to 64 with zeros. A scale is 2^(code - 127): code 0 is the subnormal 2^-127, 255 is NaN.
#pragma once

#include <cstdint>

#include "sm90/work.h"

namespace octet::sm90 {

struct ActivationRecord {
  static constexpr int kWidth = 64;  // k of a record
  OCTET_BOTH static constexpr int padded_rows(int rows) { return rows + rows % 2; }
  OCTET_BOTH static constexpr uint32_t matrix_bytes(int rows) {
    return 16U * static_cast<uint32_t>(rows);
  }
  OCTET_BOTH static constexpr uint32_t scales_at(int rows) {
    return 64U * static_cast<uint32_t>(rows);
  }
  OCTET_BOTH static constexpr uint32_t bytes(int rows) { return 72U * static_cast<uint32_t>(rows); }
  OCTET_BOTH static constexpr int count(int width) { return (width + kWidth - 1) / kWidth; }
  // Where the code of k of a row stands in the records of `rows` padded rows; and its block's scale.
  OCTET_BOTH static constexpr uint32_t code_at(int rows, int row, int k) {
    return static_cast<uint32_t>(k / kWidth) * bytes(rows) +
           static_cast<uint32_t>(k % kWidth / 16) * matrix_bytes(rows) +
           static_cast<uint32_t>(row * 16 + k % 16);
  }
  OCTET_BOTH static constexpr uint32_t scale_at(int rows, int row, int k) {
    return static_cast<uint32_t>(k / kWidth) * bytes(rows) + scales_at(rows) +
           static_cast<uint32_t>(k % kWidth / 32 * rows + row) * 4;
  }
  // What products read behind the last record: the rows up to 8 that it does not have.
  OCTET_BOTH static constexpr int slack_bytes(int) { return 128; }
};

// BF16 activations as the lanes of a warp want them, one record for every 64 k of up to 8 rows.
//
//   rows 0 ... R-1, k 64 r ... + 63 ──► record r:  [2 blocks of 32 k][R rows][4 lanes t][16 bytes]     128 R bytes
//
// A lane's 16 bytes are k 4 t ... + 3 of the block's first 16 and of its other 16: the elements of which it has the weights
// (layouts/stream_fp4.h).
struct Bf16Record {
  static constexpr int kWidth = 64;  // k of a record
  OCTET_BOTH static constexpr int padded_rows(int rows) { return rows; }
  OCTET_BOTH static constexpr uint32_t block_bytes(int rows) {
    return 64U * static_cast<uint32_t>(rows);
  }
  OCTET_BOTH static constexpr uint32_t bytes(int rows) { return 2 * block_bytes(rows); }
  // Where k of a row stands in the records of `rows` rows.
  OCTET_BOTH static constexpr uint32_t at(int rows, int row, int k) {
    return static_cast<uint32_t>(k / 32) * block_bytes(rows) +
           static_cast<uint32_t>(row * 64 + k % 16 / 4 * 16 + k % 32 / 16 * 8 + k % 4 * 2);
  }
  // Nobody reads behind the last record.
  OCTET_BOTH static constexpr int slack_bytes(int) { return 0; }
};

// The binary32 that a UE8M0 code stands for, as bits.
OCTET_BOTH constexpr uint32_t scale_bits(uint32_t code) {
  return code == 0 ? 0x00400000U : code == 255 ? 0x7FFFFFFFU : code << 23;
}

}  // namespace octet::sm90
