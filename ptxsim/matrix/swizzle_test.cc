// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/matrix/swizzle.h"

#include <array>
#include <gtest/gtest.h>
#include <set>
#include <vector>

namespace octet::ptxsim::matrix {
namespace {

// A row of the ISA's tables (5.5.7): the 16-byte cells of a 128-byte line, as they lie.
using Row = std::array<uint32_t, 8>;

void expect_rows(Swizzle swizzle, const std::vector<Row>& rows) {
  for (uint32_t line = 0; line < 16; ++line) {
    const Row& row = rows[line % rows.size()];
    for (uint32_t cell = 0; cell < 8; ++cell) {
      for (const uint32_t byte : {0U, 7U, 15U}) {
        // Cell `row[cell]` of the data stands in cell `cell` of the line.
        EXPECT_EQ(swizzled(swizzle, line * 128 + row[cell] * 16 + byte),
                  line * 128 + cell * 16 + byte)
            << line << " " << cell;
      }
    }
  }
}

TEST(Swizzle, TablesOfTheIsa) {
  expect_rows(Swizzle::kNone, {{0, 1, 2, 3, 4, 5, 6, 7}});
  expect_rows(Swizzle::k32, {{0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 3, 2, 5, 4, 7, 6}});
  expect_rows(Swizzle::k64, {{0, 1, 2, 3, 4, 5, 6, 7},
                             {1, 0, 3, 2, 5, 4, 7, 6},
                             {2, 3, 0, 1, 6, 7, 4, 5},
                             {3, 2, 1, 0, 7, 6, 5, 4}});
  expect_rows(Swizzle::k128, {{0, 1, 2, 3, 4, 5, 6, 7},
                              {1, 0, 3, 2, 5, 4, 7, 6},
                              {2, 3, 0, 1, 6, 7, 4, 5},
                              {3, 2, 1, 0, 7, 6, 5, 4},
                              {4, 5, 6, 7, 0, 1, 2, 3},
                              {5, 4, 7, 6, 1, 0, 3, 2},
                              {6, 7, 4, 5, 2, 3, 0, 1},
                              {7, 6, 5, 4, 3, 2, 1, 0}});
  expect_rows(Swizzle::k128Atom32, {{0, 1, 2, 3, 4, 5, 6, 7},
                                    {2, 3, 0, 1, 6, 7, 4, 5},
                                    {4, 5, 6, 7, 0, 1, 2, 3},
                                    {6, 7, 4, 5, 2, 3, 0, 1}});
  expect_rows(Swizzle::k128Atom64, {{0, 1, 2, 3, 4, 5, 6, 7}, {4, 5, 6, 7, 0, 1, 2, 3}});
}

TEST(Swizzle, EachIsItsOwnInverseWithinItsPattern) {
  for (const Swizzle swizzle : {Swizzle::kNone, Swizzle::k32, Swizzle::k64, Swizzle::k128,
                                Swizzle::k128Atom32, Swizzle::k128Atom64}) {
    std::set<uint32_t> seen;
    for (uint32_t address = 0; address < 4096; ++address) {
      EXPECT_EQ(swizzled(swizzle, swizzled(swizzle, address)), address);
      EXPECT_EQ(swizzled(swizzle, address) / 128, address / 128);
      seen.insert(swizzled(swizzle, address));
    }
    EXPECT_EQ(seen.size(), 4096U);
  }
}

}  // namespace
}  // namespace octet::ptxsim::matrix
