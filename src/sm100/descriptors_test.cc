// SPDX-License-Identifier: Apache-2.0
#include "sm100/descriptors.h"

#include <gtest/gtest.h>

namespace octet::sm100 {
namespace {

// Bits `first` ... `first` + `count` - 1.
uint64_t bits(uint64_t of, int first, int count) {
  return of >> first & ((uint64_t{1} << count) - 1);
}

TEST(Sm100Descriptors, OfAnOperandHasTable40sFields) {
  const uint64_t d = operand_descriptor(0x12C00);
  EXPECT_EQ(bits(d, 0, 14), 0x12C0U) << "start, in 16 bytes";
  EXPECT_EQ(bits(d, 14, 2), 0U);
  EXPECT_EQ(bits(d, 16, 14), 1U) << "leading distance, of no meaning with a swizzle";
  EXPECT_EQ(bits(d, 32, 14), 64U) << "eight rows of 128 bytes";
  EXPECT_EQ(bits(d, 46, 3), 1U);
  EXPECT_EQ(bits(d, 49, 12), 0U) << "base offset, mode, reserved";
  EXPECT_EQ(bits(d, 61, 3), 2U) << "128-byte swizzle";
  EXPECT_EQ(operand_descriptor(0), 0x4000404000010000U);
}

TEST(Sm100Descriptors, OfScalesHaveNoSwizzleAndLinesOf16Bytes) {
  EXPECT_EQ(scales_descriptor(0), 0x0000400800000000U);
  EXPECT_EQ(scales_descriptor(0x37F80), 0x0000400800000000U | 0x37F8U);
}

TEST(Sm100Descriptors, AStepAlongKIsTwoUnitsUpToTheEndOfSharedMemory) {
  for (const uint32_t at : {0U, 1024U, 226U * 1024})
    for (uint32_t step = 0; step < 4; ++step)
      EXPECT_EQ(operand_descriptor(at) + 2 * step, operand_descriptor(at + 32 * step)) << at;
}

TEST(Sm100Descriptors, OfTheInstructionHasTable43sFields) {
  EXPECT_EQ(instruction_descriptor(0), 0x08820280U);
  for (uint32_t byte = 0; byte < 4; ++byte) {
    const uint64_t d = instruction_descriptor(byte);
    EXPECT_EQ(bits(d, 0, 4), 0U) << "not sparse";
    EXPECT_EQ(bits(d, 4, 2), byte) << "b's scale";
    EXPECT_EQ(bits(d, 7, 3), 5U) << "a is e2m1";
    EXPECT_EQ(bits(d, 10, 3), 0U) << "b is e4m3";
    EXPECT_EQ(bits(d, 13, 4), 0U) << "not negated, both K-major";
    EXPECT_EQ(bits(d, 17, 6), 1U) << "N / 8";
    EXPECT_EQ(bits(d, 23, 1), 1U) << "ue8m0";
    EXPECT_EQ(bits(d, 27, 2), 1U) << "M / 128";
    EXPECT_EQ(bits(d, 29, 2), byte) << "a's scale";
    EXPECT_EQ(bits(d, 31, 1), 0U);
  }
}

}  // namespace
}  // namespace octet::sm100
