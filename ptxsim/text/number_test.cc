// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/text/number.h"

#include <bit>
#include <gtest/gtest.h>

namespace octet::ptxsim::text {
namespace {

Result<Number> read(std::string_view text, bool is_negative = false) {
  return read_number({Token::Kind::kNumber, text, {3, 7}}, is_negative);
}

// Reads it, and what is printed of it as the same.
Number number_of(std::string_view text, bool is_negative = false) {
  const auto number = read(text, is_negative);
  if (!number.ok()) {
    ADD_FAILURE() << number.status().why;
    return {};
  }
  std::string printed = print_number(*number);
  const bool is_minus = printed[0] == '-';
  if (is_minus) printed.erase(0, 1);
  const auto again = read(printed, is_minus);
  EXPECT_TRUE(again.ok() && *again == *number) << text << " printed " << printed;
  return *number;
}

uint64_t integer_of(std::string_view text, bool is_negative = false) {
  const Number number = number_of(text, is_negative);
  EXPECT_EQ(number.kind, Number::Kind::kInteger);
  EXPECT_EQ(number.is_negative, is_negative);
  return number.bits;
}

TEST(Number, ReadsIntegersOfEveryBase) {
  EXPECT_EQ(integer_of("0"), 0U);
  EXPECT_EQ(integer_of("12"), 12U);
  EXPECT_EQ(integer_of("017"), 15U);
  EXPECT_EQ(integer_of("0x1Fe"), 0x1FEU);
  EXPECT_EQ(integer_of("0X10"), 16U);
  EXPECT_EQ(integer_of("0b101"), 5U);
  EXPECT_EQ(integer_of("0B11"), 3U);
  EXPECT_EQ(integer_of("18446744073709551615"), ~uint64_t{0});
  EXPECT_EQ(integer_of("0xFFFFFFFFFFFFFFFF"), ~uint64_t{0});
  EXPECT_EQ(integer_of("01777777777777777777777"), ~uint64_t{0});
}

TEST(Number, TakesTheMinusIntoItsBits) {
  EXPECT_EQ(integer_of("1", true), ~uint64_t{0});
  EXPECT_EQ(integer_of("9223372036854775808", true), uint64_t{1} << 63);
  EXPECT_EQ(integer_of("0", true), 0U);
}

TEST(Number, KnowsAnUnsignedOne) {
  EXPECT_TRUE(number_of("12U").is_unsigned);
  EXPECT_TRUE(number_of("0x1FU").is_unsigned);
  EXPECT_FALSE(number_of("12").is_unsigned);
  EXPECT_EQ(number_of("0U").bits, 0U);
}

TEST(Number, KeepsTheBitsOfAFloat) {
  EXPECT_EQ(number_of("0f3F800000").kind, Number::Kind::kF32);
  EXPECT_EQ(number_of("0f3F800000").bits, 0x3F800000U);
  EXPECT_EQ(number_of("0Fffc00001").bits, 0xFFC00001U);  // a NaN stays the NaN that it is
  EXPECT_EQ(number_of("0d7E37E43C8800759C").kind, Number::Kind::kF64);
  EXPECT_EQ(number_of("0D8000000000000000").bits, uint64_t{1} << 63);
}

TEST(Number, RoundsADecimalFractionToBinary64) {
  EXPECT_EQ(number_of("1.5").kind, Number::Kind::kF64);
  EXPECT_EQ(number_of("1.5").bits, std::bit_cast<uint64_t>(1.5));
  EXPECT_EQ(number_of("1.5e-3").bits, std::bit_cast<uint64_t>(1.5e-3));
  EXPECT_EQ(number_of("1e3").bits, std::bit_cast<uint64_t>(1000.0));
  EXPECT_EQ(number_of("0.1", true).bits, std::bit_cast<uint64_t>(-0.1));
  EXPECT_EQ(number_of("0.0", true).bits, uint64_t{1} << 63);
}

TEST(Number, RefusesWhatIsNone) {
  const auto error = [](std::string_view text, bool is_negative = false) {
    const auto number = read(text, is_negative);
    return number.ok() ? "" : number.status().why;
  };
  const auto found = [](std::string_view text, std::string_view want) {
    return "line 3, column 7: found '" + std::string(text) + "', want " + std::string(want);
  };
  const std::pair<const char*, const char*> cases[] = {
      {"12a", "an integer of digits in base 10"},
      {"08", "an integer of digits in base 8"},
      {"0x", "an integer of digits in base 16"},
      {"0xg", "an integer of digits in base 16"},
      {"0b2", "an integer of digits in base 2"},
      {"0U5", "an integer of digits in base 8"},
      {"0xU", "an integer of digits in base 16"},
      {"18446744073709551616", "an integer of 64 bits"},
      {"0x10000000000000000", "an integer of 64 bits"},
      {"0f3F80000", "8 hexadecimal digits after 0f"},
      {"0f3F8000000", "8 hexadecimal digits after 0f"},
      {"0f", "8 hexadecimal digits after 0f"},
      {"0f3F80000g", "an integer of digits in base 16"},
      {"0d3F800000", "16 hexadecimal digits after 0d"},
      {"1e999", "a fraction that binary64 holds"},
      {"1e-999", "a fraction that binary64 holds"},
      {"1.5x", "a number"},
      {"1e", "a number"},
      {"1.5e", "a number"},
  };
  for (const auto& [text, want] : cases) EXPECT_EQ(error(text), found(text, want));
  EXPECT_EQ(error("0f3F800000", true),
            found("0f3F800000", "the sign in the bits, no minus before them"));
}

}  // namespace
}  // namespace octet::ptxsim::text
