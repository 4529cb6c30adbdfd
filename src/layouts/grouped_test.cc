// SPDX-License-Identifier: Apache-2.0
#include "layouts/grouped.h"

#include <gtest/gtest.h>
#include <vector>

namespace octet::layouts {
namespace {

TEST(Grouped, PutsSixtyFourUpRowsBeforeTheirGateRows) {
  EXPECT_EQ(grouped_stored_row({0, false}), 0);
  EXPECT_EQ(grouped_stored_row({63, false}), 63);
  EXPECT_EQ(grouped_stored_row({0, true}), 64);
  EXPECT_EQ(grouped_stored_row({63, true}), 127);
  EXPECT_EQ(grouped_stored_row({64, false}), 128);
  EXPECT_EQ(grouped_stored_row({130, true}), 2 * 128 + 64 + 2);
}

TEST(Grouped, IsABijectionOverTheWholeTensor) {
  constexpr int64_t kIntermediate = 320;
  std::vector<int> seen(2 * kIntermediate, 0);
  for (int64_t column = 0; column < kIntermediate; ++column) {
    for (const bool is_gate : {false, true}) {
      const int64_t stored = grouped_stored_row({column, is_gate});
      ASSERT_LT(stored, 2 * kIntermediate);
      EXPECT_EQ(seen[static_cast<size_t>(stored)]++, 0);
      EXPECT_EQ(grouped_logical_row(stored), (W13Row{column, is_gate}));
    }
  }
}

}  // namespace
}  // namespace octet::layouts
