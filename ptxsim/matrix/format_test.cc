// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/matrix/format.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

namespace octet::ptxsim::matrix {
namespace {

TEST(Format, NamesAreFoundAgain) {
  for (const Format format :
       {Format::kE2m1, Format::kE2m3, Format::kE3m2, Format::kE4m3, Format::kE5m2, Format::kUe8m0,
        Format::kF16, Format::kBf16, Format::kF32}) {
    EXPECT_EQ(find_format(format_name(format)), format);
  }
  EXPECT_EQ(find_format("e4m4"), std::nullopt);
}

TEST(Format, E2m1IsItsEightMagnitudes) {
  const double want[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (uint32_t code = 0; code < 8; ++code) {
    EXPECT_EQ(value_of(Format::kE2m1, code), want[code]);
    EXPECT_EQ(value_of(Format::kE2m1, code | 8), -want[code]);
    EXPECT_EQ(value_of(Format::kE2m1, code | 0xF0), want[code]) << "bits above are ignored";
  }
}

// From the formats' texts: their largest, smallest normal and smallest numbers.
TEST(Format, EdgesOfSixAndEightBits) {
  EXPECT_EQ(value_of(Format::kE2m3, 0x1F), 7.5);
  EXPECT_EQ(value_of(Format::kE2m3, 0x01), 0.125);
  EXPECT_EQ(value_of(Format::kE3m2, 0x1F), 28);
  EXPECT_EQ(value_of(Format::kE3m2, 0x01), 0.0625);
  EXPECT_EQ(value_of(Format::kE4m3, 0x7E), 448);
  EXPECT_EQ(value_of(Format::kE4m3, 0x08), std::ldexp(1, -6));
  EXPECT_EQ(value_of(Format::kE4m3, 0x81), -std::ldexp(1, -9));
  EXPECT_TRUE(std::isnan(value_of(Format::kE4m3, 0x7F)));
  EXPECT_TRUE(std::isnan(value_of(Format::kE4m3, 0xFF)));
  EXPECT_EQ(value_of(Format::kE5m2, 0x7B), 57344);
  EXPECT_EQ(value_of(Format::kE5m2, 0x01), std::ldexp(1, -16));
  EXPECT_TRUE(std::isinf(value_of(Format::kE5m2, 0x7C)));
  EXPECT_TRUE(std::isnan(value_of(Format::kE5m2, 0x7D)));
  EXPECT_EQ(value_of(Format::kUe8m0, 0), std::ldexp(1, -127));
  EXPECT_EQ(value_of(Format::kUe8m0, 254), std::ldexp(1, 127));
  EXPECT_TRUE(std::isnan(value_of(Format::kUe8m0, 255)));
}

TEST(Format, F32AndBf16AreTheHostsOwn) {
  for (uint32_t high = 0; high < 0x10000; ++high) {
    const uint32_t bits = high << 16;
    float f;
    std::memcpy(&f, &bits, 4);
    const double want = f, got32 = value_of(Format::kF32, bits),
                 got16 = value_of(Format::kBf16, high);
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(got32) && std::isnan(got16)) << high;
    } else {
      EXPECT_EQ(got32, want) << high;
      EXPECT_EQ(got16, want) << high;
    }
  }
}

TEST(Format, F16IsTheCompilersOwn) {
#ifdef __FLT16_MAX__
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const auto bits = static_cast<uint16_t>(code);
    __extension__ _Float16 f;
    std::memcpy(&f, &bits, 2);
    const auto want = static_cast<double>(f);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(value_of(Format::kF16, code))) << code;
    } else {
      EXPECT_EQ(value_of(Format::kF16, code), want) << code;
    }
  }
#endif
}

TEST(Format, ExponentsAreOfTheDigitBeforeThePoint) {
  EXPECT_EQ(exponent_of(Format::kE4m3, 0x38), 0);   // 1
  EXPECT_EQ(exponent_of(Format::kE4m3, 0x44), 1);   // 3
  EXPECT_EQ(exponent_of(Format::kE4m3, 0x01), -6);  // subnormal: the smallest normal one's
  EXPECT_EQ(exponent_of(Format::kE2m1, 0x1), 0);    // 0.5
  EXPECT_EQ(exponent_of(Format::kUe8m0, 0), -127);
  EXPECT_EQ(exponent_of(Format::kBf16, 0xBF80), 0);  // -1
}

// Every finite value is an integer of so many bits, and the largest needs them all.
TEST(Format, SpanBitsHoldEveryValue) {
  for (const Format format : {Format::kE2m1, Format::kE2m3, Format::kE3m2, Format::kE4m3,
                              Format::kE5m2, Format::kF16, Format::kBf16}) {
    const double unit = value_of(format, 1);
    double largest = 0;
    for (uint32_t code = 0; code < 1U << format_bits(format); ++code) {
      const double value = std::fabs(value_of(format, code)) / unit;
      if (!std::isfinite(value)) continue;
      EXPECT_EQ(value, std::floor(value));
      largest = std::max(largest, value);
    }
    EXPECT_EQ(std::ilogb(largest) + 1, span_bits(format)) << format_name(format);
  }
  EXPECT_EQ(span_bits(Format::kE2m1), 4);
  EXPECT_EQ(span_bits(Format::kE4m3), 18);
}

}  // namespace
}  // namespace octet::ptxsim::matrix
