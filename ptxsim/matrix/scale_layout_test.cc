// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/matrix/scale_layout.h"

#include <gtest/gtest.h>
#include <set>

namespace octet::ptxsim::matrix {
namespace {

// The copy's own rule, cell by cell, must lead from the atom to where the product looks.
TEST(ScaleLayout, CopyLeadsFromTheAtomToTheCell) {
  for (int row = 0; row < 128; ++row) {
    for (int block = 0; block < 4; ++block) {
      const int byte = scale_atom_byte(row, block);
      const int copied_row = byte / 16, word = byte % 16 / 4;
      for (int quarter = 0; quarter < 4; ++quarter)
        EXPECT_EQ(scale_cell(row, quarter), (ScaleCell{copied_row + 32 * quarter, word}));
      EXPECT_EQ(byte % 4, block);
    }
  }
}

TEST(ScaleLayout, AtomHoldsEachScaleOnce) {
  std::set<int> seen;
  for (int row = 0; row < 128; ++row) {
    for (int block = 0; block < 4; ++block) seen.insert(scale_atom_byte(row, block));
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(kScaleAtomBytes));
  EXPECT_EQ(*seen.rbegin(), kScaleAtomBytes - 1);
}

TEST(ScaleLayout, Ids) {
  for (int id = 0; id < 4; ++id) EXPECT_EQ(scale_byte(1, id).value(), id);
  EXPECT_EQ(scale_byte(2, 2).value(), 2);
  EXPECT_EQ(scale_byte(2, 1).status().why, "scale id 1 with scale_vec::2X, want 0 or 2");
  EXPECT_EQ(scale_byte(4, 0).value(), 0);
  EXPECT_FALSE(scale_byte(4, 2).ok());
  EXPECT_FALSE(scale_byte(1, 4).ok());
  EXPECT_FALSE(scale_byte(3, 0).ok());
}

}  // namespace
}  // namespace octet::ptxsim::matrix
