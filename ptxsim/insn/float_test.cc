// SPDX-License-Identifier: Apache-2.0
// Floats, halves and conversions against their definitions; the narrow formats against all of their codes.
#include <cmath>

#include "ptxsim/insn/approx.h"
#include "ptxsim/insn/numeric.h"
#include "ptxsim/insn/test_run.h"

namespace octet::ptxsim::insn {
namespace {

struct Case {
  const char* statements;
  uint32_t want;
};
void expect_words(std::initializer_list<Case> cases) {
  for (const Case& c : cases)
    EXPECT_EQ(word_of(c.statements), c.want) << std::hex << c.want << " " << c.statements;
}

TEST(Float, RoundsOnceToNearest) {
  expect_words({{"add.rn.f32 %f0, 0f3F800000, 0f33800000; mov.b32 %r0, %f0;",
                 0x3F800000},  // 1 + 2^-24: a tie
                {"add.rn.f32 %f0, 0f3F800001, 0f33800000; mov.b32 %r0, %f0;", 0x3F800002},
                {"mul.f32 %f0, 0f3F800001, 0f3F800001; mov.b32 %r0, %f0;", 0x3F800002},
                {"fma.rn.f32 %f0, 0f3F800001, 0f3F800001, 0fBF800002; mov.b32 %r0, %f0;",
                 0x28800000},  // 2^-46
                {"sub.f32 %f0, 0f3F800000, 0f3F800000; mov.b32 %r0, %f0;", 0},
                {"div.rn.f32 %f0, 0f3F800000, 0f40400000; mov.b32 %r0, %f0;", 0x3EAAAAAB},
                {"sqrt.rn.f32 %f0, 0f40000000; mov.b32 %r0, %f0;", 0x3FB504F3}});
}

TEST(Float, FlushesSubnormalsWhereToldTo) {
  expect_words({{"add.f32 %f0, 0f00000001, 0f00000001; mov.b32 %r0, %f0;", 2},
                {"add.ftz.f32 %f0, 0f00000001, 0f00800000; mov.b32 %r0, %f0;", 0x00800000},
                {"mul.rn.ftz.f32 %f0, 0f00800000, 0f3F000000; mov.b32 %r0, %f0;", 0},
                {"mul.rn.ftz.f32 %f0, 0f80800000, 0f3F000000; mov.b32 %r0, %f0;", 0x80000000},
                {"neg.ftz.f32 %f0, 0f00000001; mov.b32 %r0, %f0;", 0x80000000}});
}

TEST(Float, MakesTheCanonicalNan) {
  expect_words({{"add.f32 %f0, 0f7F800000, 0fFF800000; mov.b32 %r0, %f0;", 0x7FFFFFFF},
                {"mul.f32 %f0, 0f7FC12345, 0f3F800000; mov.b32 %r0, %f0;", 0x7FFFFFFF},
                {"fma.rn.sat.f32 %f0, 0f7FC00000, 0f00000000, 0f3F800000; mov.b32 %r0, %f0;", 0}});
}

TEST(Float, TakesTheLesserAndTheGreater) {
  expect_words({{"min.f32 %f0, 0f7FC00000, 0f40000000; mov.b32 %r0, %f0;", 0x40000000},
                {"max.f32 %f0, 0f40000000, 0f7FC00000; mov.b32 %r0, %f0;", 0x40000000},
                {"max.NaN.f32 %f0, 0f40000000, 0f7FC00000; mov.b32 %r0, %f0;", 0x7FFFFFFF},
                {"max.f32 %f0, 0f80000000, 0f00000000; mov.b32 %r0, %f0;", 0},
                {"min.f32 %f0, 0f00000000, 0f80000000; mov.b32 %r0, %f0;", 0x80000000},
                {"abs.f32 %f0, 0fC0000000; mov.b32 %r0, %f0;", 0x40000000},
                {"copysign.f32 %f0, 0fC0000000, 0f3F800000; mov.b32 %r0, %f0;", 0xBF800000}});
}

TEST(Float, ApproximatesWithinTheBoundsOfPtx) {
  for (uint32_t i = 0; i < 2000; ++i) {
    const uint32_t bits = 0x3F000000 + i * 0x12345;
    const double x = double(f32(bits));
    EXPECT_NEAR(double(f32(rcp_approx(bits))) * x, 1, 0x1p-22);
    EXPECT_NEAR(double(f32(sqrt_approx(bits))) / std::sqrt(x), 1, 0x1p-22);
    EXPECT_NEAR(double(f32(rsqrt_approx(bits))) * std::sqrt(x), 1, 0x1p-22);
  }
  for (float x = -130; x < 128; x += 0.37f)
    EXPECT_NEAR(double(f32(ex2_approx(bits32(x)))) / std::exp2(double(x)), 1, 0x1p-21) << x;
  EXPECT_EQ(ex2_approx_ftz(bits32(-140.0f)), 0u);
  EXPECT_EQ(ex2_approx(bits32(-0.0f)), 0x3F800000u);
  EXPECT_EQ(rcp_approx(0x80000000), 0xFF800000u);
  EXPECT_EQ((div_approx<false, false>(bits32(6), bits32(3))), bits32(2));
  // Beyond 2^126 .approx has 0, .full a quotient.
  EXPECT_EQ((div_approx<false, false>(bits32(1), bits32(0x1p127f))), 0u);
  EXPECT_EQ((div_approx<true, true>(bits32(4), bits32(0x1p127f))), bits32(0x1p-125f));
}

TEST(Half, RoundsOnceToNearest) {
  expect_words({{"fma.rn.bf16x2 %r0, 0x3F803F80, 0x40404040, 0x3F803F80;", 0x40804080},
                // 1.0078125 * 1.0078125 - 1 = 0.01568603515625 is no bf16 beside 0x3C80 and 0x3C81.
                {"fma.rn.bf16x2 %r0, 0x3F813F81, 0x3F813F81, 0xBF80BF80;", 0x3C803C80},
                {"add.rn.bf16x2 %r0, 0x3F803F80, 0x3B803B80;", 0x3F803F80},  // 1 + 2^-8: a tie
                {"mul.rn.f16x2 %r0, 0x3C013C01, 0x3C013C01;", 0x3C023C02},
                {"max.bf16x2 %r0, 0x7FC03F80, 0x3F804000;", 0x3F804000},
                {"neg.bf16x2 %r0, 0x3F80BF80;", 0xBF803F80},
                {"abs.bf16x2 %r0, 0xBF80BF80;", 0x3F803F80},
                {"fma.rn.relu.bf16x2 %r0, 0xBF803F80, 0x3F803F80, 0;", 0x3F80}});
}

TEST(Half, FmaIsNotTwoRoundings) {
  // 2^-8 is half a last place of 1; the product's low bits decide: 1 + 2^-8 + 2^-22 rounds up, 1 + 2^-8 alone to even.
  expect_words({{"fma.rn.bf16x2 %r0, 0x3B813B81, 0x3F803F80, 0x3F803F80;", 0x3F813F81},
                {"fma.rn.bf16x2 %r0, 0x3B803B80, 0x3F803F80, 0x3F803F80;", 0x3F803F80}});
}

TEST(Convert, BetweenIntegers) {
  expect_words({{"mov.u64 %rd1, 0x1FFFFFFF5; cvt.u32.u64 %r0, %rd1;", 0xFFFFFFF5},
                {"mov.u32 %r1, 0x1FFFE; cvt.u16.u32 %rs0, %r1; cvt.u32.u16 %r0, %rs0;", 0xFFFE},
                {"mov.u16 %rs1, 0xFFFE; cvt.s32.s16 %r0, %rs1;", 0xFFFFFFFE},
                {"mov.u32 %r1, 0x1FE; cvt.s32.s8 %r0, %r1;", 0xFFFFFFFE},
                {"mov.u32 %r1, 0x1FE; cvt.u32.u8 %r0, %r1;", 0xFE},
                {"mov.u32 %r1, 300; cvt.sat.u8.u32 %r0, %r1;", 255},
                {"mov.u32 %r1, -5; cvt.sat.u16.s32 %rs0, %r1; cvt.u32.u16 %r0, %rs0;", 0},
                {"mov.u32 %r1, -2; cvt.s64.s32 %rd1, %r1; mov.b64 {_, %r0}, %rd1;", 0xFFFFFFFF},
                {"mov.u32 %r1, -2; cvt.u64.u32 %rd1, %r1; mov.b64 {_, %r0}, %rd1;", 0}});
}

TEST(Convert, BetweenIntegersAndFloats) {
  expect_words({{"mov.u32 %r1, 16777217; cvt.rn.f32.s32 %f0, %r1; mov.b32 %r0, %f0;", 0x4B800000},
                {"mov.u32 %r1, -1; cvt.rn.f32.u32 %f0, %r1; mov.b32 %r0, %f0;", 0x4F800000},
                {"cvt.rzi.s32.f32 %r0, 0fC0200000;", uint32_t(-2)},
                {"cvt.rni.s32.f32 %r0, 0f40200000;", 2},
                {"cvt.rmi.s32.f32 %r0, 0fC0200000;", uint32_t(-3)},
                {"cvt.rpi.s32.f32 %r0, 0f40200000;", 3},
                {"cvt.rzi.s32.f32 %r0, 0f4F800000;", 0x7FFFFFFF},
                {"cvt.rzi.u32.f32 %r0, 0fBF800000;", 0},
                {"cvt.rzi.s32.f32 %r0, 0f7FC00000;", 0},
                {"cvt.rni.f32.f32 %f0, 0f3FC00000; mov.b32 %r0, %f0;", 0x40000000},
                {"cvt.sat.f32.f32 %f0, 0f40000000; mov.b32 %r0, %f0;", 0x3F800000}});
}

TEST(Convert, BetweenFloats) {
  expect_words(
      {{"cvt.f64.f32 %fd0, 0f3F800001; cvt.rz.f32.f64 %f0, %fd0; mov.b32 %r0, %f0;", 0x3F800001},
       {"cvt.rn.bf16.f32 %rs0, 0f3F808000; cvt.u32.u16 %r0, %rs0;", 0x3F80},
       {"cvt.rn.bf16.f32 %rs0, 0f3F818000; cvt.u32.u16 %r0, %rs0;", 0x3F82},
       {"cvt.rz.bf16.f32 %rs0, 0f3F81FFFF; cvt.u32.u16 %r0, %rs0;", 0x3F81},
       {"cvt.rn.f16.f32 %rs0, 0f477FF000; cvt.u32.u16 %r0, %rs0;", 0x7C00},
       {"mov.b16 %rs1, 0x3F81; cvt.f32.bf16 %f0, %rs1; mov.b32 %r0, %f0;", 0x3F810000},
       {"mov.b16 %rs1, 0x0001; cvt.f32.f16 %f0, %rs1; mov.b32 %r0, %f0;", 0x33800000},
       {"cvt.rn.bf16x2.f32 %r0, 0f40000000, 0f3F800000;", 0x40003F80}});
}

TEST(Convert, ToAndFromPairs) {
  expect_words(
      {{"cvt.rn.satfinite.e4m3x2.f32 %rs0, 0f44800000, 0f3F800000; cvt.u32.u16 %r0, %rs0;",
        0x7E38},  // 1024 to 448
       {"cvt.rn.satfinite.e4m3x2.f32 %rs0, 0f7FC00000, 0fBF800000; cvt.u32.u16 %r0, %rs0;", 0x7FB8},
       {"cvt.rn.satfinite.relu.e4m3x2.f32 %rs0, 0f3F800000, 0fBF800000; cvt.u32.u16 %r0, %rs0;",
        0x3800},
       {"cvt.rn.satfinite.e5m2x2.f32 %rs0, 0f3F800000, 0fC0000000; cvt.u32.u16 %r0, %rs0;", 0x3CC0},
       {"cvt.rn.satfinite.e2m1x2.f32 %rc0, 0f40C00000, 0fBF000000; mov.b32 %r0, {%rc0, %rc0, %rc0, "
        "%rc0};",
        0x79797979},
       {"mov.b16 %rs1, 0x7E38; cvt.rn.f16x2.e4m3x2 %r0, %rs1;", 0x5F003C00},
       {"mov.b32 {%rc0, _, _, _}, 0x79; cvt.rn.f16x2.e2m1x2 %r0, %rc0;", 0x4600B800},
       {"mov.b16 %rs1, 0x7F80; cvt.rn.bf16x2.ue8m0x2 %r0, %rs1;", 0x3F804000},
       {"cvt.rz.satfinite.ue8m0x2.f32 %rs0, 0f3FFFFFFF, 0f40000000; cvt.u32.u16 %r0, %rs0;",
        0x7F80},
       {"cvt.rp.satfinite.ue8m0x2.f32 %rs0, 0f3F800001, 0f40000000; cvt.u32.u16 %r0, %rs0;",
        0x8080}});
}

TEST(Numeric, EveryCodeIsRoundedToItself) {
  for (const Format* format : {&kF16, &kBf16, &kE4m3, &kE5m2, &kE2m3, &kE3m2, &kE2m1, &kUe8m0}) {
    const uint32_t codes = format->sign != 0 ? 2 * format->sign : 256;
    for (uint32_t code = 0; code < codes; ++code) {
      const double value = decode_float(*format, code);
      if (std::isnan(value)) continue;
      EXPECT_EQ(encode_float(*format, value, Rounding::kNearest, true),
                std::isinf(value) ? (code & format->sign) | format->largest : code);
    }
  }
}

// Against the nearest of all codes, found by looking at each.
TEST(Numeric, RoundsToTheNearestOfAllCodes) {
  for (const Format* format : {&kE4m3, &kE5m2, &kE2m3, &kE3m2, &kE2m1}) {
    for (double value = -9; value < 9; value += 0.01171875) {
      uint32_t best = 0;
      double distance = 1e9;
      for (uint32_t code = 0; code < 2 * format->sign; ++code) {
        const double d = std::fabs(decode_float(*format, code) - value);
        const bool is_even = (code & 1) == 0;
        const bool sign_fits = std::signbit(value) == ((code & format->sign) != 0);
        if (sign_fits && (d < distance || (d == distance && is_even))) best = code, distance = d;
      }
      EXPECT_EQ(encode_float(*format, value, Rounding::kNearest, true), best) << value;
    }
  }
}

}  // namespace
}  // namespace octet::ptxsim::insn
