// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/matrix/dot.h"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

namespace octet::ptxsim::matrix {
namespace {

using Codes = std::vector<uint32_t>;

float dot_of(Format format, const Codes& a, const Codes& b, const Term& term = {},
             Arithmetic arithmetic = kExactSum) {
  const int depth = static_cast<int>(a.size());
  return dot(Factors(format, a, 1, depth, false), Factors(format, b, 1, depth, false), term,
             arithmetic);
}
uint32_t bf16(float value) { return std::bit_cast<uint32_t>(value) >> 16; }

TEST(Dot, SmallIntegersAreExactInEveryModel) {
  const Codes a = {0x38, 0x40, 0x44, 0xB8};  // 1, 2, 3, -1 as e4m3
  const Codes b = {0x40, 0x44, 0x48, 0x30};  // 2, 3, 4, 0.5
  for (const Arithmetic arithmetic : {kExactSum, kTruncated25, kTruncated13})
    EXPECT_EQ(dot_of(Format::kE4m3, a, b, {.c = 100}, arithmetic), 100 + 2 + 6 + 12 - 0.5F);
}

TEST(Dot, ScaleIsOfTheProductsAlone) {
  const Term term = {.scale_exponent = 3, .c = 1};
  EXPECT_EQ(dot_of(Format::kE4m3, {0x38}, {0x40}, term), 17);
  EXPECT_EQ(dot_of(Format::kE4m3, {0x38}, {0x40}, term, kTruncated25), 17);
}

TEST(Dot, ExactSumIsRoundedOnce) {
  // 2^30 + 1 - 2^30, which no sum in f32 keeps, and terms of 2^100 and 2^-100, which none in double does.
  const Codes a = {bf16(0x1p30F), bf16(1), bf16(-0x1p30F)}, one = {bf16(1), bf16(1), bf16(1)};
  EXPECT_EQ(dot_of(Format::kBf16, a, one), 1);
  const Codes wide = {bf16(0x1p100F), bf16(0x1p-100F), bf16(-0x1p100F)};
  EXPECT_EQ(dot_of(Format::kBf16, wide, one), 0x1p-100F);
  // A tie that one small term decides.
  const Codes tie = {bf16(1), bf16(0x1p-24F), bf16(0x1p-120F)};
  EXPECT_EQ(dot_of(Format::kBf16, tie, one), std::nextafterf(1, 2));
  EXPECT_EQ(dot_of(Format::kBf16, {bf16(1)}, {bf16(1)}, {.c = 0x1p-24F}), 1);
}

TEST(Dot, SpecialValues) {
  const uint32_t inf = 0x7F80, ninf = 0xFF80, nan = 0x7FC0, one = bf16(1), zero = 0;
  for (const Arithmetic arithmetic : {kExactSum, kTruncated25}) {
    const auto of = [&](Codes a, Codes b, float c) {
      return std::bit_cast<uint32_t>(dot_of(Format::kBf16, a, b, {.c = c}, arithmetic));
    };
    EXPECT_EQ(of({inf, one}, {one, one}, 0), 0x7F800000U);
    EXPECT_EQ(of({ninf, one}, {one, one}, 0), 0xFF800000U);
    EXPECT_EQ(of({inf, ninf}, {one, one}, 0), 0x7FFFFFFFU);
    EXPECT_EQ(of({inf}, {zero}, 0), 0x7FFFFFFFU);
    EXPECT_EQ(of({nan}, {one}, 0), 0x7FFFFFFFU);
    EXPECT_EQ(of({one}, {one}, std::numeric_limits<float>::quiet_NaN()), 0x7FFFFFFFU);
    EXPECT_EQ(of({one}, {one}, -std::numeric_limits<float>::infinity()), 0xFF800000U);
    EXPECT_EQ(of({zero}, {one}, -0.0F), 0U);
    // The hardware has no -0.
    const bool is_exact = arithmetic.sum == Arithmetic::Sum::kExact;
    EXPECT_EQ(of({0x8000}, {one}, -0.0F), is_exact ? 0x80000000U : 0U);
  }
  EXPECT_EQ(std::bit_cast<uint32_t>(
                dot_of(Format::kE4m3, {0x38}, {0x38}, {.scale_is_nan = true, .c = 1})),
            0x7FFFFFFFU);
}

TEST(Dot, BeyondF32IsInf) {
  const Codes most = {0x7F7F}, two = {bf16(2)};
  for (const Arithmetic arithmetic : {kExactSum, kTruncated25})
    EXPECT_TRUE(std::isinf(dot_of(Format::kBf16, most, two, {}, arithmetic)));
}

// By the model's own text, in integers: the largest term 1.0, so units of 2^-13 and 2^-25.
TEST(Dot, TruncationDropsWhatIsBelowTheUnit) {
  const Codes a = {0x38, 0x08, 0x88}, b = {0x38, 0x08, 0x18};  // 1, 2^-12, -2^-6 * 2^-4
  EXPECT_EQ(dot_of(Format::kE4m3, a, b, {}, kTruncated13), 1 + 0x1p-12F - 0x1p-10F);
  // 1.75 * 2^-9 * 2^-6 is 0 in units of 2^-13, and -(that) as well: toward zero, not down.
  const Codes c = {0x38, 0x0E}, d = {0x38, 0x02}, negative = {0x38, 0x8E};
  EXPECT_EQ(dot_of(Format::kE4m3, c, d, {}, kTruncated13), 1);
  EXPECT_EQ(dot_of(Format::kE4m3, negative, d, {}, kTruncated13), 1);
  EXPECT_NE(dot_of(Format::kE4m3, negative, d, {}, kTruncated25), 1);
  // c is cut as well, and sets the unit where it is the largest.
  EXPECT_EQ(dot_of(Format::kE4m3, {0x38}, {0x38}, {.c = 0x1p14F}, kTruncated13), 0x1p14F);
  EXPECT_EQ(dot_of(Format::kE4m3, {0x38}, {0x38}, {.c = 0x1p13F}, kTruncated13), 0x1p13F + 1);
  EXPECT_EQ(dot_of(Format::kE4m3, {0x38}, {0x38}, {.c = 0x1p-14F}, kTruncated13), 1);
  // Hopper's sum is cut to 14 bits, too.
  EXPECT_EQ(dot_of(Format::kE4m3, {0x38}, {0x38}, {.c = 1 + 0x1p-13F}, kTruncated13), 2);
  EXPECT_EQ(dot_of(Format::kE4m3, {0x38}, {0x38}, {.c = -1 - 0x1p-13F}, kTruncated13), -0x1p-13F);
}

TEST(Dot, TruncatedSumIsCutTowardZero) {
  // 1 + 2^-24 + 2^-24 keeps both of the two extra bits: 1 + 2^-23; one alone is cut.
  const Codes one = {bf16(1), bf16(1), bf16(1)};
  EXPECT_EQ(dot_of(Format::kBf16, {bf16(1), bf16(0x1p-24F), bf16(0x1p-24F)}, one, {}, kTruncated25),
            1 + 0x1p-23F);
  EXPECT_EQ(
      dot_of(Format::kBf16, {bf16(1), bf16(0x1p-24F), bf16(0x1.8p-25F)}, one, {}, kTruncated25), 1);
  EXPECT_EQ(
      dot_of(Format::kBf16, {bf16(-1), bf16(-0x1p-24F), bf16(-0x1p-25F)}, one, {}, kTruncated25),
      -1);
}

// The truncated sum loses less than a unit a term; the exact one is the rounded sum in long double where that is exact.
TEST(Dot, RandomLinesWithinTheirBounds) {
  std::minstd_rand random(4);
  for (int round = 0; round < 5000; ++round) {
    Codes a(32), b(32);
    long double exact = 0;
    double largest = 0;
    for (int k = 0; k < 32; ++k) {
      a[k] = static_cast<uint32_t>(random() % 16);
      b[k] = static_cast<uint32_t>(random() % 0x7F | (random() & 1) << 7);
      const double product = value_of(Format::kE2m1, a[k]) * value_of(Format::kE4m3, b[k]);
      exact += product;
      largest = std::max(largest, std::fabs(product));
    }
    const Factors fa(Format::kE2m1, a, 1, 32, false), fb(Format::kE4m3, b, 1, 32, false);
    const float c = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-24F;
    const Term term = {.c = c};
    exact += c;
    largest = std::max(largest, static_cast<double>(std::fabs(c)));
    EXPECT_EQ(dot(fa, fb, term, kExactSum), static_cast<float>(exact)) << round;
    for (const Arithmetic arithmetic : {kTruncated25, kTruncated13}) {
      const double bound = 33 * std::ldexp(2 * largest, -arithmetic.fraction_bits) +
                           std::fabs(static_cast<double>(exact)) * 0x1p-23;
      EXPECT_NEAR(dot(fa, fb, term, arithmetic), static_cast<double>(exact), bound) << round;
    }
  }
}

TEST(Factors, NegationAndLines) {
  const Codes codes = {0x38, 0x40, 0x44, 0x48};
  const Factors factors(Format::kE4m3, codes, 2, 2, true);
  EXPECT_EQ(factors.values(1)[0], -3);
  EXPECT_EQ(factors.exponents(1)[1], 2);
  EXPECT_EQ(factors.lines(), 2);
}

}  // namespace
}  // namespace octet::ptxsim::matrix
