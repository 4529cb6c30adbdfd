// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/machine/tensor_memory.h"

#include <gtest/gtest.h>
#include <set>

namespace octet::ptxsim::machine {
namespace {

uint32_t allocated(TensorMemory& memory, uint32_t columns, Random& random) {
  const auto address = memory.allocate(columns, random);
  EXPECT_TRUE(address.ok()) << address.status().why;
  EXPECT_TRUE(address->has_value());
  return **address;
}

TEST(TensorMemory, AllocationsBeginAnywhere) {
  std::set<uint32_t> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    TensorMemory memory;
    Random random(seed);
    const uint32_t address = allocated(memory, 128, random);
    EXPECT_EQ(address % 32, 0U);
    EXPECT_LE(address + 128, 512U);
    seen.insert(address);
  }
  EXPECT_EQ(seen.size(), 13U);
}

TEST(TensorMemory, WaitsForFreeColumns) {
  TensorMemory memory;
  Random random(1);
  const uint32_t all = allocated(memory, 512, random);
  EXPECT_FALSE(memory.allocate(32, random)->has_value());
  EXPECT_TRUE(memory.deallocate(all, 512).ok());
  EXPECT_TRUE(memory.allocate(32, random)->has_value());
}

TEST(TensorMemory, RulesOfAllocation) {
  TensorMemory memory;
  Random random(1);
  for (const uint32_t columns : {0U, 16U, 33U, 48U, 1024U}) {
    EXPECT_EQ(
        memory.allocate(columns, random).status().why,
        std::to_string(columns) + " columns of tensor memory, want a power of two in 32 ... 512");
  }
  const uint32_t address = allocated(memory, 64, random);
  EXPECT_EQ(memory.allocate(128, random).status().why,
            "allocation of 128 columns after one of 64: want no more");
  EXPECT_FALSE(memory.deallocate(address, 32).ok());
  EXPECT_FALSE(memory.deallocate(address + 32, 64).ok());
  EXPECT_EQ(memory.left_behind(), "64 columns of tensor memory are not deallocated");
  EXPECT_TRUE(memory.relinquish().ok());
  EXPECT_FALSE(memory.allocate(32, random).ok());
  EXPECT_TRUE(memory.deallocate(address, 64).ok());
  EXPECT_FALSE(memory.deallocate(address, 64).ok()) << "twice";
  EXPECT_EQ(memory.left_behind(), "");
}

TEST(TensorMemory, CellsOutsideOfAllocations) {
  TensorMemory memory;
  Random random(3);
  const int column = static_cast<int>(allocated(memory, 32, random));
  EXPECT_TRUE(memory.check({0, 128, column, 32}).ok());
  EXPECT_FALSE(memory.check({0, 128, column, 33}).ok());
  EXPECT_FALSE(memory.check({0, 1, column - 1, 1}).ok());
  EXPECT_FALSE(memory.check({97, 32, column, 1}).ok());
}

TEST(TensorMemory, CellsHaveNoValueUntilWritten) {
  TensorMemory memory;
  Random random(3);
  const uint32_t address = allocated(memory, 32, random);
  const int column = tensor_column(address);
  memory.write(5, column, 7);
  EXPECT_EQ(memory.read(5, column), 7U);
  EXPECT_FALSE(memory.find_unset({5, 1, column, 1}).has_value());
  EXPECT_EQ(*memory.find_unset({5, 1, column, 2}),
            "lane 5, column " + std::to_string(column + 1) + " of tensor memory has no value");
  // A new allocation begins without values.
  EXPECT_TRUE(memory.deallocate(address, 32).ok());
  EXPECT_FALSE(memory.is_set(5, column));
}

TEST(TensorMemory, UsesThatNoRuleOrdersAreRaces) {
  TensorMemory memory;
  Random random(3);
  const int column = static_cast<int>(allocated(memory, 64, random));
  const TensorRect d = {0, 128, column, 8}, scales = {0, 128, column + 16, 4};
  const TensorUse mma = {d, TensorUser::kMma, true, 10};
  const TensorUse scale = {scales, TensorUser::kMma, false, 10};
  const TensorUse copy = {scales, TensorUser::kCopy, true, 9};
  const auto copied = memory.begin(copy);
  ASSERT_TRUE(copied.ok());
  ASSERT_TRUE(memory.begin(scale).ok()) << "cp, then mma: ordered";
  const auto multiplied = memory.begin(mma);
  ASSERT_TRUE(multiplied.ok());
  EXPECT_TRUE(memory.check_race(mma).ok()) << "mma, then mma on the same accumulator: ordered";
  TensorUse wider = mma;
  wider.rect.num_columns = 16;
  EXPECT_FALSE(memory.check_race(wider).ok()) << "of another shape: not";
  EXPECT_FALSE(memory.check_race(copy).ok()) << "mma, then cp over its scales: not";
  const TensorUse load = {{32, 32, column + 7, 1}, TensorUser::kLoad, false, 12};
  EXPECT_EQ(memory.check_race(load).why,
            "tcgen05.ld reads tensor memory that tcgen05.mma of line 10 still has to write: " +
                print(load.rect) + " and " + print(d));
  EXPECT_EQ(print(scales).substr(0, 21), "lanes 0-127, columns ");
  EXPECT_FALSE(memory.deallocate(static_cast<uint32_t>(column), 64).ok());
  memory.end(*multiplied);
  EXPECT_TRUE(memory.check_race(load).ok());
}

TEST(TensorMemory, CopiesMayBeSaidToFollowProducts) {
  TensorMemory memory(true);
  Random random(3);
  const int column = static_cast<int>(allocated(memory, 64, random));
  const TensorRect scales = {0, 128, column + 16, 4};
  ASSERT_TRUE(memory.begin({scales, TensorUser::kMma, false, 10}).ok());
  EXPECT_TRUE(memory.check_race({scales, TensorUser::kCopy, true, 9}).ok());
  EXPECT_FALSE(memory.check_race({scales, TensorUser::kStore, true, 9}).ok());
}

}  // namespace
}  // namespace octet::ptxsim::machine
