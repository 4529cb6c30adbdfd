// SPDX-License-Identifier: Apache-2.0
// State without instructions: memories, mbarriers, pending operations, groups.
#include <algorithm>
#include <gtest/gtest.h>

#include "ptxsim/machine/async.h"
#include "ptxsim/machine/mbarrier.h"
#include "ptxsim/machine/memory.h"

namespace octet::ptxsim::machine {
namespace {

TEST(Memory, KnowsWhatIsWritten) {
  Memory memory(16);
  EXPECT_EQ(*memory.at(3), kPoison);
  const uint8_t four[] = {1, 2, 3, 4};
  memory.write(4, four);
  EXPECT_TRUE(memory.all_are(Memory::Byte::kSet, 4, 4));
  EXPECT_FALSE(memory.all_are(Memory::Byte::kSet, 3, 4));
  memory.poison(5, 1);
  EXPECT_EQ(*memory.at(5), kPoison);
  EXPECT_FALSE(memory.all_are(Memory::Byte::kSet, 4, 4));
  EXPECT_FALSE(memory.covers(12, 5));
  EXPECT_FALSE(memory.covers(~uint64_t{0}, 5));
}

TEST(Memory, WholeInputsCanBePoisonedToo) {
  Memory memory(4);
  const uint8_t four[] = {1, 2, 3, 4};
  memory.write(0, four);
  EXPECT_TRUE(memory.all_are(Memory::Byte::kSet, 0, 4));
  memory.poison(1, 1);
  EXPECT_FALSE(memory.all_are(Memory::Byte::kSet, 0, 2));
  EXPECT_TRUE(memory.all_are(Memory::Byte::kSet, 2, 2));
}

TEST(GlobalMemory, FindsOnlyWhatIsInside) {
  GlobalMemory memory;
  const uint64_t a = memory.allocate("a", 100), b = memory.allocate("b", 10);
  EXPECT_EQ(memory.find(a + 96, 4)->name, "a");
  EXPECT_EQ(memory.find(b, 10)->name, "b");
  EXPECT_EQ(memory.find(a + 97, 4), nullptr);
  EXPECT_EQ(memory.find(a - 1, 1), nullptr);
  EXPECT_EQ(memory.find(b + 10, 1), nullptr);
  EXPECT_TRUE(memory.release(a));
  EXPECT_FALSE(memory.release(a));
  EXPECT_EQ(memory.find(a, 4), nullptr);
  EXPECT_NE(memory.explain(b + 12, 4).find("'b' has 10 bytes, these begin at its byte 12"),
            std::string::npos);
}

TEST(Mbarrier, EndsAPhaseWithArrivalsAndBytes) {
  Mbarriers all;
  all.init(8, 2);
  Mbarrier& barrier = *all.find(8);
  EXPECT_TRUE(barrier.has_ended(1));
  EXPECT_FALSE(barrier.has_ended(0));
  EXPECT_EQ(barrier.complete(16), "");  // bytes before they are expected
  EXPECT_EQ(barrier.expect(16), "");
  EXPECT_EQ(barrier.arrive(1), "");
  EXPECT_FALSE(barrier.has_ended(0));
  EXPECT_EQ(barrier.arrive(1), "");
  EXPECT_TRUE(barrier.has_ended(0));
  EXPECT_EQ(barrier.drop(1), "");
  EXPECT_EQ(barrier.expected, 1);
  EXPECT_NE(barrier.arrive(2), "");
  EXPECT_NE(barrier.expect(kMostTransactions + 1), "");
}

TEST(AsyncQueue, KeepsTheOrderOfAChannelAndOfDependences) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    AsyncQueue queue;
    std::vector<int> done;
    std::vector<uint64_t> ids;
    for (int i = 0; i < 8; ++i) {
      AsyncOp op;
      op.channel = i < 4 ? 7 : kUnordered;
      if (i == 4) op.after = {ids[3]};
      op.perform = [&done, i]() -> Status {
        done.push_back(i);
        return {};
      };
      ids.push_back(queue.push(std::move(op)));
    }
    AsyncOp op;
    while (queue.take(0, true, random, &op)) EXPECT_TRUE(op.perform().ok());
    ASSERT_EQ(done.size(), 8u);
    const auto at = [&](int i) { return std::find(done.begin(), done.end(), i) - done.begin(); };
    EXPECT_LT(at(0), at(1));
    EXPECT_LT(at(2), at(3));
    EXPECT_LT(at(3), at(4));
  }
}

TEST(AsyncQueue, WaitsUntilAnOperationIsDue) {
  Random random(1);
  AsyncQueue queue;
  AsyncOp op;
  op.due = 10;
  queue.push(op);
  EXPECT_FALSE(queue.take(9, false, random, &op));
  EXPECT_TRUE(queue.take(10, false, random, &op));
}

TEST(AsyncGroups, CountsTheNewestThatMayBeLeft) {
  AsyncGroups groups;
  const uint64_t first = groups.join();
  groups.commit();
  const uint64_t second = groups.join();
  groups.commit();
  EXPECT_TRUE(groups.at_most(2));
  EXPECT_FALSE(groups.at_most(1));
  groups.done(second);
  EXPECT_FALSE(groups.at_most(1));  // the older one is not done
  groups.done(first);
  EXPECT_TRUE(groups.at_most(0));
}

}  // namespace
}  // namespace octet::ptxsim::machine
