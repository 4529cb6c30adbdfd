// SPDX-License-Identifier: Apache-2.0
// Where block scales lie: in shared memory as atoms of 512 bytes, in tensor memory behind tcgen05.cp.32x128b.warpx4.
//
//   shared     atom of 128 rows and 4 blocks of k: row r, block b at byte r%32 * 16 + r/32 * 4 + b
//   tcgen05.cp 32 rows of 16 bytes: row i's word c to lanes i, i + 32, i + 64, i + 96, column c
//   tensor     row r's scales: lane r%32 (and the three others), column r/32; block b: byte b of the word
//
// Which bytes of the word an instruction takes, its scale id says:
//   scale_vec::1X   one a row: byte id, id 0 ... 3          the one of kind::mxf8f6f4, which alone is run
//   scale_vec::2X   two: bytes id, id + 1, id 0 or 2
//   scale_vec::4X   four: all, id 0
//
// Source: PTX ISA 9.7.16.10.7 ("duplicated to all 32 lane partitions"; ids), 9.7.16.9.2. The text says nothing of rows beyond 32: columns
// r/32 are as a published layout library has them, compared over every row (docs/ptxsim.md).
#pragma once

#include <cstdint>

#include "octet/status.hpp"

namespace octet::ptxsim::matrix {

constexpr int kScaleAtomBytes = 512;
constexpr int scale_atom_byte(int row, int block) {
  return row % 32 * 16 + row % 128 / 32 * 4 + block % 4;
}

struct ScaleCell {
  int lane = 0, column = 0;  // of tensor memory, from the operand's address
  friend constexpr bool operator==(const ScaleCell&, const ScaleCell&) = default;
};
// Of `row` as the lanes of `quarter` (0 ... 3) see it.
constexpr ScaleCell scale_cell(int row, int quarter) { return {row % 32 + 32 * quarter, row / 32}; }

// The first byte of a row's word that `id` means with `per_row` scales a row (1, 2, 4).
Result<int> scale_byte(int per_row, int id);

}  // namespace octet::ptxsim::matrix
