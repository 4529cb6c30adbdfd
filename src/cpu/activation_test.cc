// SPDX-License-Identifier: Apache-2.0
#include "cpu/activation.h"

#include <bit>
#include <cstring>
#include <gtest/gtest.h>

#include "cpu/lanes.h"
#include "cpu/panel_dot.h"

namespace octet::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

float plain(float up, float gate) { return swiglu(up, gate, {}); }
float limited(float up, float gate, float limit) { return swiglu(up, gate, {limit}); }
float gpt_oss(float up, float gate) { return swiglu(up, gate, {7.0F, 1.702F, 1.0F}); }

double sigmoid(double v) { return 1 / (1 + std::exp(-v)); }

// Bits, so that the sign of zero counts.
void expect_bits(float got, float want) {
  EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want)) << got;
}

// The oracle's room: 5 units for reciprocal, sum and products, the rest for the rounded argument of exp2.
void expect_near(float got, double up, double gate, double alpha = 1, double beta = 0) {
  const double z = alpha * gate;
  if (std::fabs(z + 87.34) < 0.2) return;  // the flush may go either way
  const double want = z < -87.34 ? 0.0 : (up + beta) * gate * sigmoid(z);
  const double room = (5 + (std::fabs(z) + 2) / (1 + std::exp(z))) * 0x1p-23;
  EXPECT_LE(std::fabs(static_cast<double>(got) - want), room * std::fabs(want))
      << up << " " << gate;
}

TEST(Swiglu, Exp2IsWithinHalfAUlpAndAHundredth) {
  for (float a = -150.0F; a < 128.0F; a += 0.00913F) {
    const double want = std::exp2(static_cast<double>(a));
    const float got = exp2_f32(a);
    const double ulp = std::fmax(std::ldexp(1.0, std::ilogb(want) - 23), 0x1p-149);
    ASSERT_LE(std::fabs(static_cast<double>(got) - want), 0.51 * ulp) << a;
  }
  for (const float n : {-149.0F, -126.0F, -1.0F, 0.0F, 1.0F, 127.0F})
    expect_bits(exp2_f32(n), std::ldexp(1.0F, static_cast<int>(n)));
  expect_bits(exp2_f32(-0.0F), 1.0F);
  expect_bits(exp2_f32(-151.0F), 0.0F);
  expect_bits(exp2_f32(-kInf), 0.0F);
  expect_bits(exp2_f32(128.0F), kInf);
  expect_bits(exp2_f32(kInf), kInf);
  EXPECT_TRUE(std::isnan(exp2_f32(kNan)));
}

// One source, two sets of instructions.
TEST(Lanes, SameBytesFromEveryInstructionSet) {
  if (!has_avx2()) GTEST_SKIP() << "this machine has no AVX2";
  float acc[16], bias[16];
  uint32_t bits = 1;
  for (int round = 0; round < 20000; ++round) {
    for (int i = 0; i < 16; ++i) {
      bits = bits * 1664525U + 1013904223U;
      acc[i] = round % 4 == 0 ? std::bit_cast<float>(bits)
                              : std::ldexp(static_cast<float>(bits >> 8), -round % 40);
      bias[i] = static_cast<float>(bits % 7) - 3;
    }
    const float* const with_bias = round % 2 == 0 ? bias : nullptr;
    const HiddenLanes hidden{0.75F, -1.5F, with_bias, with_bias,
                             round % 3 == 0 ? Swiglu{7.0F, 1.702F, 1.0F} : Swiglu{}};
    const OutputLanes output{1.25F, with_bias};
    float want_h[8], got_h[8];
    Bf16 want_y[16], got_y[16];
    kLanesPortable.hidden(hidden, acc, want_h);
    kLanesAvx2.hidden(hidden, acc, got_h);
    kLanesPortable.output(output, acc, want_y);
    kLanesAvx2.output(output, acc, got_y);
    for (int i = 0; i < 8; ++i) {
      if (std::isnan(want_h[i])) {
        ASSERT_TRUE(std::isnan(got_h[i]));
      } else {
        ASSERT_EQ(std::bit_cast<uint32_t>(got_h[i]), std::bit_cast<uint32_t>(want_h[i])) << round;
      }
    }
    ASSERT_EQ(std::memcmp(got_y, want_y, sizeof got_y), 0) << round;
  }
}

TEST(Swiglu, IsUpTimesSiluOfGate) {
  for (float gate = -80.0F; gate < 80.0F; gate += 0.37F) {
    for (const float up : {-3.25F, 0.01F, 900.0F}) {
      expect_near(plain(up, gate), static_cast<double>(up), static_cast<double>(gate));
      const float u = std::fmin(std::fmax(up, -7.0F), 7.0F), g = std::fmin(gate, 7.0F);
      expect_near(gpt_oss(up, gate), static_cast<double>(u), static_cast<double>(g),
                  static_cast<double>(1.702F), 1);
    }
  }
}

// gpt-oss at its edges: gate from above only, up on both sides.
TEST(Swiglu, ClampsGateFromAboveAndUpOnBothSides) {
  expect_bits(gpt_oss(2.0F, 7.0001F), gpt_oss(2.0F, 7.0F));
  EXPECT_NE(gpt_oss(2.0F, 6.9999F), gpt_oss(2.0F, 7.0F));
  EXPECT_NE(gpt_oss(2.0F, -50.0F), gpt_oss(2.0F, -7.0F));
  expect_near(gpt_oss(2.0F, -50.0F), 2, -50, static_cast<double>(1.702F), 1);
  expect_bits(gpt_oss(7.0001F, 1.0F), gpt_oss(7.0F, 1.0F));
  expect_bits(gpt_oss(-7.0001F, 1.0F), gpt_oss(-7.0F, 1.0F));
  EXPECT_NE(gpt_oss(-6.9999F, 1.0F), gpt_oss(-7.0F, 1.0F));
  expect_bits(limited(kInf, 3.0F, 10.0F), limited(10.0F, 3.0F, 10.0F));
  expect_bits(limited(-kInf, kInf, 10.0F), limited(-10.0F, 10.0F, 10.0F));
  expect_bits(plain(kInf, 1.0F), plain(kMax, 1.0F));
}

TEST(Swiglu, GateOfMinusInfinityIsAZero) {
  expect_bits(plain(2.0F, -kInf), -0.0F);
  expect_bits(plain(-2.0F, -kInf), 0.0F);
  expect_bits(plain(kInf, -kInf), -0.0F);
  expect_bits(gpt_oss(2.0F, -kInf), -0.0F);
}

TEST(Swiglu, NanSurvives) {
  for (const float limit : {7.0F, kMax}) {
    EXPECT_TRUE(std::isnan(limited(kNan, 1.0F, limit)));
    EXPECT_TRUE(std::isnan(limited(1.0F, kNan, limit)));
    EXPECT_TRUE(std::isnan(limited(kNan, -kInf, limit)));
    EXPECT_TRUE(std::isnan(limited(0.0F, kNan, limit)));
  }
}

TEST(Swiglu, UpOfMinusZeroCountsAsZero) {
  expect_bits(plain(-0.0F, 1.0F), 0.0F);
  expect_bits(plain(-0.0F, -1.0F), -0.0F);
  expect_bits(plain(0.0F, -1.0F), -0.0F);
}

// 1 + 2^a above 2^126 has a reciprocal below 2^-126.
TEST(Swiglu, SigmoidFlushesBelowAGateOf87) {
  EXPECT_LT(plain(1.0F, -87.0F), 0.0F);
  expect_bits(plain(1.0F, -87.4F), -0.0F);
  expect_bits(plain(-kMax, -88.0F), 0.0F);
  EXPECT_NE(sigmoid_flushed(-87.2F), 0.0F);
  expect_bits(sigmoid_flushed(-87.4F), 0.0F);
}

TEST(Swiglu, FlushesSubnormalsWithTheirSign) {
  expect_bits(plain(0x1p-127F, 1.0F), 0.0F);           // up is 0 on the way in
  expect_bits(plain(-0x1p-127F, 1.0F), -0.0F + 0.0F);  // and +0, as -0 is
  expect_bits(plain(1.0F, -0x1p-127F), -0.0F);
  expect_bits(plain(-1.0F, 0x1p-127F), -0.0F);
  expect_bits(plain(0x1p30F, 0x1p-126F), 0.0F);     // gate * sigmoid is 2^-127
  expect_bits(plain(-0x1p-100F, 0x1p-27F), -0.0F);  // the product is
}

}  // namespace
}  // namespace octet::cpu
