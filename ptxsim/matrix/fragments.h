// SPDX-License-Identifier: Apache-2.0
// Which element of a matrix, or which cell of tensor memory, a register of a lane holds.
//
//   accumulator, wgmma and mma.sync   register i of lane 4 g + t: row g + 8 * (i/2 % 2), column 2 t + i%2 + 8 * (i/4)
//   a of 16-bit elements, k16         register i: row g + 8 * (i%2), k 2 t + {0, 1} + 8 * (i/2)
//   a of 8-bit elements, k32          register i: row g + 8 * (i%2), k 4 t + {0 ... 3} + 16 * (i/2)
//   b of mma.sync                     register i: column g, k as a's with i for i/2
//   (a wgmma's warp w has rows 16 w ... 16 w + 15; mma.sync's a and d have 16 rows)
//
//   tcgen05.ld, .st                   register i of lane l, one repetition after the other:
//     .32x32b   1 register            row l, column 0
//     .16x64b   1                     row l/4 + 8 * (l%2), column l/2 % 2
//     .16x128b  2                     row l/4 + 8 i, column l%4
//     .16x256b  4                     row l/4 + 8 * (i/2), column 2 * (l%4) + i%2
//   each repetition the shape's own columns (1, 2, 4, 8) further.
//
// Source: PTX ISA 9.7.15.5.1.1 (figures 148, 149, 152, 153), 9.7.14.5 (mma.m16n8k16, k32), 9.7.16.2.3.1 (figures 183-186). The text that
// figures 184-186 stand beside does not say where the elements are: .16x256b is as a published layout library has it and as the structure
// known to run on hardware uses it; .16x64b and .16x128b are as that library has them.
#pragma once

#include <optional>
#include <string_view>

namespace octet::ptxsim::matrix {

struct Place {
  int row = 0, column = 0;
  friend constexpr bool operator==(const Place&, const Place&) = default;
};

constexpr Place accumulator_place(int lane, int reg) {
  return {lane / 4 + 8 * (reg / 2 % 2), 2 * (lane % 4) + reg % 2 + 8 * (reg / 4)};
}

// The first of the elements that share the register; the others follow along k. element_bits 8 or 16: 4 or 2 of them.
constexpr Place a_place(int lane, int reg, int element_bits) {
  const int elements = 32 / element_bits;
  return {lane / 4 + 8 * (reg % 2), elements * (lane % 4) + 4 * elements * (reg / 2)};
}
// row: column of b (n); column: k.
constexpr Place b_place(int lane, int reg, int element_bits) {
  const int elements = 32 / element_bits;
  return {lane / 4, elements * (lane % 4) + 4 * elements * reg};
}

enum class TensorShape { k32x32b, k16x64b, k16x128b, k16x256b };
std::optional<TensorShape> find_tensor_shape(std::string_view name);  // "32x32b"

constexpr int tensor_shape_registers(TensorShape shape) {  // a repetition
  return shape == TensorShape::k16x256b ? 4 : shape == TensorShape::k16x128b ? 2 : 1;
}
constexpr int tensor_shape_columns(TensorShape shape) {  // a repetition
  switch (shape) {
    case TensorShape::k32x32b:
      return 1;
    case TensorShape::k16x64b:
      return 2;
    case TensorShape::k16x128b:
      return 4;
    case TensorShape::k16x256b:
      return 8;
  }
  return 0;
}
constexpr int tensor_shape_rows(TensorShape shape) {
  return shape == TensorShape::k32x32b ? 32 : 16;
}

// From the instruction's own lane and column.
constexpr Place tensor_place(TensorShape shape, int lane, int reg) {
  const int registers = tensor_shape_registers(shape), i = reg % registers;
  const int first = reg / registers * tensor_shape_columns(shape);
  switch (shape) {
    case TensorShape::k32x32b:
      return {lane, first};
    case TensorShape::k16x64b:
      return {lane / 4 + 8 * (lane % 2), first + lane / 2 % 2};
    case TensorShape::k16x128b:
      return {lane / 4 + 8 * i, first + lane % 4};
    case TensorShape::k16x256b:
      return {lane / 4 + 8 * (i / 2), first + 2 * (lane % 4) + i % 2};
  }
  return {};
}

}  // namespace octet::ptxsim::matrix
