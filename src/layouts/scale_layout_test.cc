// SPDX-License-Identifier: Apache-2.0
#include "layouts/scale_layout.h"

#include <gtest/gtest.h>
#include <vector>

namespace octet::layouts {
namespace {

constexpr ScaleLayout kAll[] = {ScaleLayout::kLinear, ScaleLayout::k128x4, ScaleLayout::k8x4};
constexpr ScaleCoord kShapes[] = {{1, 1},   {7, 4},   {8, 5},    {9, 3},   {128, 4},
                                  {129, 6}, {300, 9}, {640, 20}, {2, 160}, {257, 1}};

// The formulas of semantics.md section 2, at coordinates whose every term is different from 0.
TEST(ScaleLayout, FollowsTheFormula) {
  EXPECT_EQ(scale_offset(ScaleLayout::kLinear, 6, 3, 5), 3 * 6 + 5);
  // m 165 = 128 + 32 + 5, c 5 = 4 + 1, Kt 2.
  EXPECT_EQ(scale_offset(ScaleLayout::k128x4, 6, 165, 5), 1 * 1024 + 1 * 512 + 5 * 16 + 1 * 4 + 1);
  EXPECT_EQ(scale_offset(ScaleLayout::k8x4, 6, 11, 5), 1 * 64 + 1 * 32 + 3 * 4 + 1);
}

TEST(ScaleLayout, CountsPaddingInItsBytes) {
  EXPECT_EQ(scale_bytes(ScaleLayout::kLinear, 9, 5), 45);
  EXPECT_EQ(scale_bytes(ScaleLayout::k128x4, 129, 5), 256 * 8);
  EXPECT_EQ(scale_bytes(ScaleLayout::k8x4, 9, 5), 16 * 8);
  for (const ScaleLayout layout : kAll) EXPECT_EQ(scale_bytes(layout, 0, 5), 0);
}

// Every byte belongs to one coordinate, every coordinate to one byte, both ways, padding included.
TEST(ScaleLayout, IsABijectionOverTheWholeTensor) {
  for (const ScaleLayout layout : kAll) {
    for (const auto& [rows, cols] : kShapes) {
      SCOPED_TRACE(testing::Message() << name_of(layout) << " " << rows << "x" << cols);
      const int64_t bytes = scale_bytes(layout, rows, cols);
      std::vector<int> seen(static_cast<size_t>(bytes), 0);
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t col = 0; col < cols; ++col) {
          const int64_t offset = scale_offset(layout, cols, row, col);
          ASSERT_GE(offset, 0);
          ASSERT_LT(offset, bytes);
          ++seen[static_cast<size_t>(offset)];
          ASSERT_EQ(scale_coord(layout, cols, offset), (ScaleCoord{row, col}));
        }
      }
      for (int64_t offset = 0; offset < bytes; ++offset) {
        const ScaleCoord at = scale_coord(layout, cols, offset);
        const bool inside = at.row < rows && at.col < cols;
        ASSERT_EQ(seen[static_cast<size_t>(offset)], inside ? 1 : 0) << offset;
        ASSERT_EQ(scale_offset(layout, cols, at.row, at.col), offset);
      }
    }
  }
}

}  // namespace
}  // namespace octet::layouts
