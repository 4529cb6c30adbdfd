// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/matrix/exact_sum.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

namespace octet::ptxsim::matrix {
namespace {

float sum_of(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values) sum.add(value);
  return sum.round_to_f32();
}

TEST(ExactSum, ZeroIsPlusZero) {
  EXPECT_EQ(sum_of({}), 0);
  EXPECT_FALSE(std::signbit(sum_of({-1, 1})));
  EXPECT_FALSE(std::signbit(sum_of({-0.0})));
}

TEST(ExactSum, OneValueIsRoundedAsTheHostDoes) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i) {
    const auto significand = static_cast<double>(static_cast<int64_t>(random()) >> (random() % 60));
    const double value = std::ldexp(significand, static_cast<int>(random() % 300) - 200);
    EXPECT_EQ(sum_of({value}), static_cast<float>(value)) << std::hexfloat << value;
  }
}

TEST(ExactSum, SmallPartsDecideTies) {
  const double half = std::ldexp(1, -24), tiny = std::ldexp(1, -900);
  EXPECT_EQ(sum_of({1, half}), 1.0F);
  EXPECT_EQ(sum_of({1, half, tiny}), std::nextafterf(1, 2));
  EXPECT_EQ(sum_of({1, half, -tiny}), 1.0F);
  EXPECT_EQ(sum_of({-1, -half, -tiny}), -std::nextafterf(1, 2));
  EXPECT_EQ(sum_of({1, 3 * half}), 1.0F + 4 * static_cast<float>(half));
  EXPECT_EQ(sum_of({1, 3 * half, -tiny}), 1.0F + 2 * static_cast<float>(half));
}

TEST(ExactSum, LargePartsCancel) {
  EXPECT_EQ(sum_of({std::ldexp(1, 1000), 1, -std::ldexp(1, 1000)}), 1.0F);
  EXPECT_EQ(sum_of({1e300, std::ldexp(1, -149), -1e300}), std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(sum_of({std::numeric_limits<double>::denorm_min(), 1.5}), 1.5F);
  EXPECT_EQ(sum_of({std::numeric_limits<double>::max(), 1, -std::numeric_limits<double>::max()}),
            1.0F);
  EXPECT_EQ(sum_of({1e39}), std::numeric_limits<float>::infinity());
  EXPECT_EQ(sum_of({-1e39}), -std::numeric_limits<float>::infinity());
}

// Integers times 2^-60, whose sum is known in 128 bits.
TEST(ExactSum, ManyTermsAgreeWithIntegers) {
  __extension__ using Int128 = __int128;
  std::mt19937_64 random(2);
  for (int round = 0; round < 2000; ++round) {
    Int128 want = 0;
    std::vector<double> values;
    for (int i = 0; i < 40; ++i) {
      const int64_t n = static_cast<int64_t>(random()) >> (11 + random() % 50);
      const int shift = static_cast<int>(random() % 60);
      want += static_cast<Int128>(n) << shift;
      values.push_back(std::ldexp(static_cast<double>(n), shift - 60));
    }
    // Halves to f32's width by hand: 24 bits and a tie rule.
    const bool negative = want < 0;
    Int128 magnitude = negative ? -want : want;
    int exponent = -60;
    bool sticky = false;
    while (magnitude >= Int128{1} << 25) {
      sticky |= (magnitude & 1) != 0;
      magnitude >>= 1;
      ++exponent;
    }
    if (magnitude >= Int128{1} << 24) {
      const bool half = (magnitude & 1) != 0;
      magnitude >>= 1;
      ++exponent;
      if (half && (sticky || (magnitude & 1) != 0)) ++magnitude;
    }
    const float f = std::ldexp(static_cast<float>(magnitude), exponent);
    EXPECT_EQ(sum_of(values), negative ? -f : f) << round;
  }
}

TEST(RoundPair, AgreesWithTheExactSum) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200000; ++i) {
    const double a = std::ldexp(static_cast<double>(static_cast<int32_t>(random())),
                                static_cast<int>(random() % 90) - 45);
    // Near a tie: f32's half a unit, a little more or less.
    const double b = static_cast<float>(a) * (1 + std::ldexp(1, -24)) +
                     std::ldexp(static_cast<double>(random() % 3) - 1, -60);
    const double value = a + b, back = value - a, error = (a - (value - back)) + (b - back);
    EXPECT_EQ(round_pair_to_f32(value, error), sum_of({a, b})) << std::hexfloat << a << " " << b;
  }
}

}  // namespace
}  // namespace octet::ptxsim::matrix
