// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/matrix/fragments.h"

#include <gtest/gtest.h>
#include <set>
#include <utility>

namespace octet::ptxsim::matrix {
namespace {

// As the layout oracle checked SM120's fragments of 8-bit elements: element i of a lane.
TEST(Fragments, M16n8k32) {
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 16; ++i) {
      const Place a = a_place(lane, i / 4, 8);
      EXPECT_EQ(a.row, g + 8 * (i / 4 % 2));
      EXPECT_EQ(a.column + i % 4, 4 * t + i % 4 + 16 * (i / 8));
    }
    for (int i = 0; i < 8; ++i) {
      const Place b = b_place(lane, i / 4, 8);
      EXPECT_EQ(b.row, g);
      EXPECT_EQ(b.column + i % 4, 4 * t + i % 4 + 16 * (i / 4));
    }
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(accumulator_place(lane, i), (Place{g + 8 * (i / 2), 2 * t + i % 2}));
  }
}

// PTX ISA 9.7.14.5.8, a0 ... a7 of m16n8k16: row g for i in {0, 1, 4, 5}, k 2 t + i%2 and 8 more from i = 4.
TEST(Fragments, M16n8k16) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 8; ++i) {
      const Place a = a_place(lane, i / 2, 16);
      const bool is_upper = i < 2 || (i >= 4 && i < 6);
      EXPECT_EQ(a.row, lane / 4 + (is_upper ? 0 : 8));
      EXPECT_EQ(a.column + i % 2, lane % 4 * 2 + i % 2 + (i < 4 ? 0 : 8));
    }
    for (int i = 0; i < 4; ++i) {
      const Place b = b_place(lane, i / 2, 16);
      EXPECT_EQ(b.row, lane / 4);
      EXPECT_EQ(b.column + i % 2, lane % 4 * 2 + i % 2 + (i < 2 ? 0 : 8));
    }
  }
}

TEST(Fragments, AccumulatorOfManyColumnsHoldsEachOnce) {
  std::set<std::pair<int, int>> seen;
  for (int lane = 0; lane < 32; ++lane) {
    for (int reg = 0; reg < 16; ++reg) {
      const Place place = accumulator_place(lane, reg);
      EXPECT_TRUE(place.row < 16 && place.column < 32);
      seen.insert({place.row, place.column});
    }
  }
  EXPECT_EQ(seen.size(), 16U * 32U);
}

TEST(Fragments, TensorShapesHoldEachCellOnce) {
  for (const auto& [name, columns, rows] :
       {std::tuple{"32x32b", 1, 32}, {"16x64b", 2, 16}, {"16x128b", 4, 16}, {"16x256b", 8, 16}}) {
    const TensorShape shape = *find_tensor_shape(name);
    EXPECT_EQ(tensor_shape_columns(shape), columns);
    EXPECT_EQ(tensor_shape_rows(shape), rows);
    EXPECT_EQ(tensor_shape_registers(shape) * 32, columns * rows);
    std::set<std::pair<int, int>> seen;
    for (int lane = 0; lane < 32; ++lane) {
      for (int reg = 0; reg < 4 * tensor_shape_registers(shape); ++reg) {
        const Place place = tensor_place(shape, lane, reg);
        EXPECT_TRUE(place.row < rows && place.column < 4 * columns) << name;
        seen.insert({place.row, place.column});
      }
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(rows * columns * 4)) << name;
  }
  EXPECT_EQ(find_tensor_shape("16x32bx2"), std::nullopt);
}

// A lane of .16x256b.x1 holds 64 bits of two rows; lanes 4 t' ... share a row.
TEST(Fragments, TensorShape16x256b) {
  EXPECT_EQ(tensor_place(TensorShape::k16x256b, 0, 0), (Place{0, 0}));
  EXPECT_EQ(tensor_place(TensorShape::k16x256b, 0, 1), (Place{0, 1}));
  EXPECT_EQ(tensor_place(TensorShape::k16x256b, 0, 2), (Place{8, 0}));
  EXPECT_EQ(tensor_place(TensorShape::k16x256b, 7, 3), (Place{9, 7}));
  EXPECT_EQ(tensor_place(TensorShape::k16x256b, 7, 4), (Place{1, 14}));
  EXPECT_EQ(tensor_place(TensorShape::k16x128b, 6, 1), (Place{9, 2}));
  EXPECT_EQ(tensor_place(TensorShape::k16x64b, 7, 1), (Place{9, 3}));
}

}  // namespace
}  // namespace octet::ptxsim::matrix
