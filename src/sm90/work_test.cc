// SPDX-License-Identifier: Apache-2.0
#include "sm90/work.h"

#include <gtest/gtest.h>
#include <set>
#include <tuple>

#include "sm90/activation_record.h"

namespace octet::sm90 {
namespace {

TEST(Work, HandsOutEveryUnitOnceAndAfterWhatItNeeds) {
  for (const int tiles : {0, 1, 6, 64}) {
    for (const int up : {1, 18, 90}) {
      for (const int down : {1, 45, 80}) {
        for (const int chunk : {1, 2, 3, 4}) {
          std::set<std::tuple<Work::Kind, int, int>> seen;
          bool has_down = false;
          const WorkOrder order(tiles, up, down, chunk);
          int ticket = 0;
          for (;; ++ticket) {
            const Work w = order[ticket];
            if (w.kind == Work::Kind::kNone) break;
            EXPECT_TRUE(w.kind == Work::Kind::kDown || !has_down) << "ticket " << ticket;
            has_down = w.kind == Work::Kind::kDown;
            EXPECT_GE(w.count, 1);
            EXPECT_LE(w.count, has_down ? chunk : 1);
            for (int i = w.first; i < w.first + w.count; ++i) {
              EXPECT_LT(i, has_down ? down : up);
              EXPECT_TRUE(seen.emplace(w.kind, w.tile, i).second)
                  << "twice: tile " << w.tile << ", unit " << i;
            }
          }
          EXPECT_EQ(seen.size(), static_cast<size_t>(tiles * (up + down)));
          EXPECT_EQ(order[ticket + 1000].kind, Work::Kind::kNone);
        }
      }
    }
  }
}

TEST(Divisor, IsDivision) {
  for (const int by : {1, 2, 3, 7, 18, 80, 1023, 5760}) {
    for (int v = 0; v < 64 * by; v += 1 + by / 64)
      EXPECT_EQ(Divisor(by).quotient(v), v / by) << v << " by " << by;
  }
}

TEST(Leaves, HoldEveryStageAndAreAtMostEight) {
  for (int stages = 1; stages < 100; ++stages) {
    const Leaves leaves = leaves_of(stages);
    EXPECT_LE(leaves.count, kMostLeaves);
    EXPECT_GE(leaves.count * leaves.stages_a_leaf, stages);
    EXPECT_LT((leaves.count - 1) * leaves.stages_a_leaf, stages) << "the last leaf is empty";
  }
}

TEST(ActivationRecord, HasAPlaceForEveryCodeAndScale) {
  for (const int rows : {2, 4, 6, 8}) {
    std::set<uint32_t> bytes;
    const int width = 192;
    for (int row = 0; row < rows; ++row) {
      for (int k = 0; k < width; ++k)
        EXPECT_TRUE(bytes.insert(ActivationRecord::code_at(rows, row, k)).second);
      for (int k = 0; k < width; k += 32)
        for (uint32_t b = 0; b < 4; ++b)
          EXPECT_TRUE(bytes.insert(ActivationRecord::scale_at(rows, row, k) + b).second);
    }
    EXPECT_EQ(bytes.size(), ActivationRecord::bytes(rows) * 3);
    EXPECT_EQ(*bytes.rbegin(), ActivationRecord::bytes(rows) * 3 - 1);
  }
}

}  // namespace
}  // namespace octet::sm90
