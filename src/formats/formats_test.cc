// SPDX-License-Identifier: Apache-2.0
// Number formats against their definitions: every code, every midpoint, the odd values of semantics.md section 1.
#include <bit>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>

#include "formats/bf16.h"
#include "formats/e2m1.h"
#include "formats/e4m3.h"
#include "formats/mxfp4.h"
#include "formats/mxfp8.h"
#include "formats/nvfp4.h"
#include "formats/ue8m0.h"

namespace octet::formats {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

float bf16(int bits) { return bf16_to_f32({static_cast<uint16_t>(bits)}); }
uint8_t u8(int v) { return static_cast<uint8_t>(v); }

// ---- BF16

// Expects every conversion of v to give `bits`, and of -v the same with its sign.
void expect_bf16(double v, int bits) {
  ASSERT_EQ(bf16_from_f64(v).bits, bits) << v;
  ASSERT_EQ(bf16_from_f64(-v).bits, bits | 0x8000) << -v;
}

TEST(Bf16, EveryMidpointOfF64GoesToTheEvenCodeAndItsNeighboursToTheNearest) {
  for (int code = 0; code < 0x7F7F; ++code) {
    const double low = bf16(code);
    const double high = bf16(code + 1);
    const double middle = (low + high) / 2;  // exact
    expect_bf16(low, code);
    expect_bf16(middle, code + code % 2);
    // Nearer to the middle than binary32 can tell: rounding there first would make a tie of it.
    expect_bf16(std::nextafter(middle, 0.0), code);
    expect_bf16(std::nextafter(middle, kInf), code + 1);
    expect_bf16(std::nextafter(high, 0.0), code + 1);
  }
}

TEST(Bf16, F32AndF64AgreeOnEveryMidpointOfF32) {
  for (int code = 0; code < 0x7F80; ++code) {
    for (const uint32_t low_half : {0x7FFFU, 0x8000U, 0x8001U}) {
      const float v = std::bit_cast<float>(static_cast<uint32_t>(code) << 16 | low_half);
      const int want = low_half < 0x8000U                     ? code
                       : low_half == 0x8000U && code % 2 == 0 ? code
                                                              : code + 1;
      ASSERT_EQ(bf16_from_f32(v).bits, want) << v;
      ASSERT_EQ(bf16_from_f64(v).bits, want) << v;
    }
  }
}

TEST(Bf16, OverflowsAtTheMidpointPastTheLargest) {
  const double edge = 0x1.FFp127;  // between the largest and 2^128
  expect_bf16(std::nextafter(edge, 0.0), 0x7F7F);
  expect_bf16(edge, 0x7F80);
  expect_bf16(1e300, 0x7F80);
  expect_bf16(kInf, 0x7F80);
}

TEST(Bf16, UnderflowKeepsTheSign) {
  expect_bf16(0x1p-134, 0);  // half the smallest: a tie, to even
  expect_bf16(std::nextafter(0x1p-134, 1.0), 1);
  expect_bf16(1e-300, 0);
}

TEST(Bf16, NanBecomesTheQuietOne) {
  EXPECT_EQ(bf16_from_f64(std::nan("")).bits, 0x7FC0);
  EXPECT_EQ(bf16_from_f32(std::bit_cast<float>(0xFF800001U)).bits, 0x7FC0);
}

// ---- E4M3

double e4m3_by_definition(int code) {
  const int e = code >> 3 & 15;
  const int m = code & 7;
  const double v = e == 0 ? std::ldexp(m, -9) : std::ldexp(8 + m, e - 10);
  return (code & 0x80) != 0 ? -v : v;
}

// The nearest of all codes, the even one at a tie, 448 beyond it.
uint8_t e4m3_nearest(double v) {
  int best = 0;
  for (int c = 1; c < 0x7F; ++c) {
    const double now = std::fabs(std::fabs(v) - e4m3_by_definition(best));
    const double then = std::fabs(std::fabs(v) - e4m3_by_definition(c));
    if (then < now || (then == now && c % 2 == 0)) best = c;
  }
  if (std::isinf(v)) best = 0x7E;
  return u8(best | (std::signbit(v) ? 0x80 : 0));
}

TEST(E4m3, EveryCodeIsItsDefinitionAndComesBack) {
  for (int c = 0; c < 256; ++c) {
    if ((c & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(e4m3_to_f32(u8(c))));
      continue;
    }
    EXPECT_EQ(e4m3_to_f32(u8(c)), e4m3_by_definition(c)) << c;
    EXPECT_EQ(e4m3_from_f32(e4m3_to_f32(u8(c))), c);
    EXPECT_EQ(e4m3_from_f64(e4m3_by_definition(c)), c);
  }
  EXPECT_EQ(e4m3_from_f32(std::nanf("")), 0x7F);
  EXPECT_EQ(e4m3_from_f32(-std::nanf("")), 0x7F);
}

TEST(E4m3, EveryBf16ValueGoesToTheNearest) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const float v = bf16(bits);
    if (std::isnan(v)) continue;
    ASSERT_EQ(e4m3_from_f32(v), e4m3_nearest(v)) << v;
  }
}

TEST(E4m3, EveryMidpointGoesToTheEvenCodeAndItsNeighboursToTheNearest) {
  for (int c = 0; c < 0x7E; ++c) {
    const double middle = (e4m3_by_definition(c) + e4m3_by_definition(c + 1)) / 2;
    for (const double v : {middle, std::nextafter(middle, 0.0), std::nextafter(middle, kInf)}) {
      ASSERT_EQ(e4m3_from_f64(v), e4m3_nearest(v)) << v;
    }
    const auto f = static_cast<float>(middle);
    for (const float v : {f, -f, std::nextafterf(f, 0.0F), std::nextafterf(f, 1e9F)}) {
      ASSERT_EQ(e4m3_from_f32(v), e4m3_nearest(v)) << v;
    }
  }
}

// ---- E2M1

TEST(E2m1, EveryCodeComesBack) {
  const float values[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  for (int c = 0; c < 8; ++c) {
    EXPECT_EQ(e2m1_to_f32(u8(c)), values[c]);
    EXPECT_EQ(e2m1_to_f32(u8(c + 8)), -values[c]);
    EXPECT_EQ(e2m1_from_f32(values[c]), c);
    EXPECT_EQ(e2m1_from_f32(-values[c]), c + 8) << "the sign of zero is kept";
  }
}

TEST(E2m1, TiesGoToTheEvenCodeAndNothingElseDoes) {
  for (int c = 0; c < 7; ++c) {
    const double middle = (static_cast<double>(e2m1_to_f32(u8(c))) + e2m1_to_f32(u8(c + 1))) / 2;
    EXPECT_EQ(e2m1_from_f64(middle, false), c + c % 2) << middle;
    EXPECT_EQ(e2m1_from_f64(std::nextafter(middle, 0.0), false), c) << middle;
    EXPECT_EQ(e2m1_from_f64(-std::nextafter(middle, 9.0), true), c + 1 + 8) << middle;
  }
  EXPECT_EQ(e2m1_from_f64(1e300, false), 7);
}

TEST(E2m1, LowNibbleIsTheEvenElement) {
  const uint8_t pairs[] = {0x21, 0x43};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(e2m1_at(pairs, i), i + 1);
  EXPECT_EQ(e2m1_pair(1, 2), 0x21);
}

// ---- UE8M0, MXFP4, NVFP4

TEST(Ue8m0, EveryCodeIsAPowerOfTwoAndTheLastIsNan) {
  for (int c = 0; c < 255; ++c) EXPECT_EQ(ue8m0_to_f32(u8(c)), std::ldexp(1.0, c - 127)) << c;
  EXPECT_EQ(ue8m0_to_f32(0), 0x1p-127F);
  EXPECT_TRUE(std::isnan(ue8m0_to_f32(255)));
}

TEST(Ue8m0, CeilRoundsUpToAPowerOfTwo) {
  for (int c = 0; c < 255; ++c) {
    const float v = ue8m0_to_f32(u8(c));
    EXPECT_EQ(ue8m0_ceil_code(v), c);
    EXPECT_EQ(ue8m0_ceil_code(std::nextafterf(v, INFINITY)), c + 1);
  }
  EXPECT_EQ(ue8m0_ceil_code(0x1p-149F), 0);
}

TEST(Mxfp4, ProductsAreExactUntilTheyAreInfinite) {
  for (int s = 0; s < 255; ++s) {
    for (int c = 0; c < 16; ++c) {
      const double exact = std::ldexp(e2m1_to_f32(u8(c)), s - 127);
      const double want = std::fabs(exact) >= 0x1p128 ? std::copysign(kInf, exact) : exact;
      ASSERT_EQ(mxfp4_to_f32(u8(c), u8(s)), want) << c << " * " << s;
      ASSERT_TRUE(s > 252 || bf16_to_f32(bf16_from_f64(want)) == want) << "exact in BF16";
    }
  }
  EXPECT_TRUE(std::isinf(mxfp4_to_f32(7, 254)) && std::isinf(mxfp4_to_f32(6, 253)));
  EXPECT_TRUE(std::isnan(mxfp4_to_f32(0, 255)));
}

TEST(Mxfp4, ScaleCodeIsTheLeastThatHoldsAmax) {
  EXPECT_EQ(mxfp4_scale_code(0), 0);
  for (int code = 0; code < 255; ++code) {
    const double full = std::ldexp(6.0, code - 127);
    EXPECT_EQ(mxfp4_scale_code(full), code);
    EXPECT_EQ(mxfp4_scale_code(full * (1 - 0x1p-24)), code);
    EXPECT_EQ(mxfp4_scale_code(full * (1 + 0x1p-23)), code == 254 ? 254 : code + 1);
  }
  EXPECT_EQ(mxfp4_scale_code(0x1p-149), 0);
}

TEST(Nvfp4, NegativeScalesAreTheirValueAndNanScalesSpread) {
  EXPECT_EQ(nvfp4_to_f32(7, 0x7E), 2688.0F);
  EXPECT_EQ(nvfp4_to_f32(2, 0xC0), -e4m3_to_f32(0x40));
  EXPECT_TRUE(std::isnan(nvfp4_to_f32(0, 0x7F)) && std::isnan(nvfp4_to_f32(3, 0xFF)));
  EXPECT_EQ(nvfp4_to_f32(1, 0x01), 0x1p-10F);
}

// ---- MXFP8: x

TEST(Mxfp8, ScaleCodeOfXIsTheClosedFormForEveryFiniteAmax) {
  for (int bits = 0; bits < 0x7F80; ++bits) {
    const int e = bits >> 7;
    const int m = bits & 127;
    const double v = static_cast<float>(bf16(bits) * kInv448);  // one rounding, subnormals kept
    int want = 0;
    while (v > std::ldexp(1.0, want - 127)) ++want;
    ASSERT_EQ(x_scale_code(bf16(bits)), want) << bits;
    if (e < 9) continue;  // amax < 2^-118
    ASSERT_EQ(want, e - 8 + (m > 96 ? 1 : 0)) << bits;
    ASSERT_LE(bf16(bits) * std::ldexp(1.0, 127 - want), 448.0) << "the clamp never acts";
  }
  for (const int odd : {0x7F80, 0x7FC0, 0xFFFF}) EXPECT_EQ(x_scale_code(bf16(odd)), 254);
}

TEST(Mxfp8, CodesZeroAnd254OfXHaveNoInverse) {
  for (const int scale : {0, 254}) {
    EXPECT_EQ(x_code(1e38F, u8(scale)), 0x00);
    EXPECT_EQ(x_code(-1e-38F, u8(scale)), 0x80);
    EXPECT_EQ(x_code(-INFINITY, u8(scale)), 0x7E);
    EXPECT_EQ(x_code(std::nanf(""), u8(scale)), 0x7E);
  }
  EXPECT_EQ(x_code(0x1p-126F, 1), 0x38);  // 1.0
  EXPECT_EQ(x_code(0x1p126F, 253), 0x38);
  EXPECT_EQ(x_code(std::nanf(""), 127), 0x7E);
}

// ---- MXFP8: h

TEST(Mxfp8, ScaleCodeOfHCountsAZeroBlockAs448) {
  EXPECT_EQ(h_scale_code(0), 127);
  EXPECT_EQ(h_scale_code(448.0F), 127);
  EXPECT_EQ(h_scale_code(std::nextafterf(448.0F, 1e9F)), 128);
  EXPECT_EQ(h_scale_code(0x1p-126F), 0);
  EXPECT_EQ(h_scale_code(std::numeric_limits<float>::max()), 247);
  EXPECT_EQ(h_scale_code(INFINITY), 255);
}

TEST(Mxfp8, HFlushesSubnormalsAndKeepsNan) {
  EXPECT_EQ(h_code(std::nanf(""), 127), 0x7F);
  EXPECT_EQ(h_code(INFINITY, 255), 0x7E);
  EXPECT_EQ(h_code(0x1p-127F, 0), 0x00);
  EXPECT_EQ(h_code(-0x1p-127F, 0), 0x80);
  EXPECT_EQ(h_code(0x1p-126F, 0), 0x40);  // 2: code 0 has the inverse 2^127
  EXPECT_EQ(h_code(-1.0F, 127), 0xB8);
}

}  // namespace
}  // namespace octet::formats
