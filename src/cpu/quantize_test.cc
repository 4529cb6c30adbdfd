// SPDX-License-Identifier: Apache-2.0
#include "cpu/quantize.h"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

#include "core/test_threads.h"
#include "cpu/ops.h"
#include "formats/bf16.h"
#include "formats/mxfp8.h"
#include "layouts/scale_layout.h"

namespace octet::cpu {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Bf16 bf16(float v) { return formats::bf16_from_f32(v); }

struct Quantized {
  Bytes codes, scales;
  friend bool operator==(const Quantized&, const Quantized&) = default;
};

// One block of x: `first` elements in front, the rest `fill`.
Quantized x_block(const std::vector<float>& first, float fill = 0.0F) {
  std::vector<Bf16> x(32, bf16(fill));
  for (size_t i = 0; i < first.size(); ++i) x[i] = bf16(first[i]);
  Quantized q{Bytes(32, 0xFF), Bytes(1, 0xFF)};
  quantize_x_row(x.data(), 32, q.codes.data(), q.scales.data());
  return q;
}

Quantized h_row(const std::vector<float>& h) {
  Quantized q{Bytes(h.size(), 0xEE), Bytes((h.size() + 31) / 32, 0xEE)};
  quantize_h_row(h.data(), static_cast<int64_t>(h.size()), q.codes.data(), q.scales.data());
  return q;
}

// ---- x: the table of semantics.md section 3

TEST(QuantizeX, ZeroBlockKeepsSignsUnderCode0) {
  const Quantized q = x_block({-0.0F, 0.0F});
  EXPECT_EQ(q.scales[0], 0);
  EXPECT_EQ(q.codes[0], 0x80);
  EXPECT_EQ(q.codes[1], 0x00);
}

TEST(QuantizeX, InfiniteBlockIsCode254) {
  for (const float inf : {kInf, -kInf}) {
    const Quantized q = x_block({inf, 3.0F, -3.0F, kNan});
    EXPECT_EQ(q.scales[0], 254);
    EXPECT_EQ(q.codes[0], 0x7E);  // both signs: infinity times the inverse 0 is NaN
    EXPECT_EQ(q.codes[1], 0x00);
    EXPECT_EQ(q.codes[2], 0x80);
    EXPECT_EQ(q.codes[3], 0x7E);
  }
}

TEST(QuantizeX, NanLosesAgainstNumbers) {
  const Quantized q = x_block({kNan, -448.0F, 1.0F});
  EXPECT_EQ(q.scales[0], 127);
  EXPECT_EQ(q.codes[0], 0x7E);
  EXPECT_EQ(q.codes[1], 0xFE);
  EXPECT_EQ(q.codes[2], 0x38);
  std::vector<Bf16> odd(32, Bf16{0x7F81});  // a signalling NaN beside one number
  odd[31] = bf16(448.0F);
  uint8_t codes[32], scale = 0;
  quantize_x_row(odd.data(), 32, codes, &scale);
  EXPECT_EQ(scale, 127);
  EXPECT_EQ(codes[0], 0x7E);
}

TEST(QuantizeX, AllNanIsCode254) {
  for (const int bits : {0x7FC0, 0xFFC0, 0x7F81, 0xFFFF}) {
    const std::vector<Bf16> x(32, Bf16{static_cast<uint16_t>(bits)});
    uint8_t codes[32], scale = 0;
    quantize_x_row(x.data(), 32, codes, &scale);
    EXPECT_EQ(scale, 254);
    for (const uint8_t c : codes) EXPECT_EQ(c, 0x7E);
  }
}

// amax / 448 in (2^-127, 2^-126) gives code 1, not 0: no flush of subnormals.
TEST(QuantizeX, KeepsSubnormalQuotients) {
  EXPECT_EQ(x_block({0x1.CP-119F}).scales[0], 0);  // 448 * 2^-127
  EXPECT_EQ(x_block({0x1.C2p-119F}).scales[0], 1);
  EXPECT_EQ(x_block({0x1.C2p-119F}).codes[0], 0x76);  // 225/128 * 2^7 = 225, to 224
  EXPECT_EQ(x_block({0x1p-133F}).codes[0], 0x00);
}

// The amax may stand anywhere; blocks do not influence each other.
TEST(QuantizeX, TakesTheAmaxOfItsOwnBlock) {
  for (size_t at = 0; at < 32; ++at) {
    std::vector<Bf16> x(96, bf16(1.0F));
    x[32 + at] = bf16(-900.0F);
    Quantized q{Bytes(96, 0xFF), Bytes(3, 0xFF)};
    quantize_x_row(x.data(), 96, q.codes.data(), q.scales.data());
    EXPECT_EQ(q.scales, (Bytes{119, 129, 119}));
    EXPECT_EQ(q.codes[0], formats::e4m3_from_f32(256.0F));
    EXPECT_EQ(q.codes[32 + at], formats::e4m3_from_f32(-225.0F));
  }
}

// ---- x: layouts and rows

std::vector<Bf16> random_x(int64_t count, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<Bf16> x(static_cast<size_t>(count));
  for (Bf16& v : x) v = {static_cast<uint16_t>(rng())};  // any bits: NaN, Inf, subnormals too
  return x;
}

Quantized quantize(const std::vector<Bf16>& x, int64_t tokens, ScaleLayout layout, int threads) {
  const int64_t width = tokens == 0 ? 64 : static_cast<int64_t>(x.size()) / tokens;
  Quantized q{Bytes(x.size(), 0xFF),
              Bytes(static_cast<size_t>(layouts::scale_bytes(layout, tokens, width / 32)), 0xFF)};
  TestThreads pool(threads);
  mxfp8_quantize({x.data(), tokens, width, layout, q.codes.data(), q.scales.data()}, pool);
  return q;
}

TEST(Mxfp8Quantize, PutsEveryScaleInItsLayoutAndZerosInThePadding) {
  for (const auto& [tokens, width] :
       {std::pair<int64_t, int64_t>{1, 32}, {3, 96}, {9, 160}, {130, 1120}, {2, 5120}}) {
    const std::vector<Bf16> x = random_x(tokens * width, 1);
    const Quantized linear = quantize(x, tokens, ScaleLayout::kLinear, 1);
    for (const ScaleLayout layout : {ScaleLayout::k128x4, ScaleLayout::k8x4}) {
      const Quantized q = quantize(x, tokens, layout, 2);
      EXPECT_EQ(q.codes, linear.codes);
      Bytes want(q.scales.size(), 0);
      for (int64_t row = 0; row < tokens; ++row) {
        for (int64_t c = 0; c < width / 32; ++c)
          want.at(static_cast<size_t>(layouts::scale_offset(layout, width / 32, row, c))) =
              linear.scales[static_cast<size_t>(row * (width / 32) + c)];
      }
      EXPECT_EQ(q.scales, want) << name_of(layout) << " " << tokens << "x" << width;
    }
  }
}

TEST(Mxfp8Quantize, GivesTheSameBytesForARowAloneAndAnyThreads) {
  constexpr int64_t kWidth = 2080;
  const std::vector<Bf16> x = random_x(8 * kWidth, 2);
  const Quantized all = quantize(x, 8, ScaleLayout::kLinear, 1);
  for (const int threads : {2, 3}) EXPECT_EQ(quantize(x, 8, ScaleLayout::kLinear, threads), all);
  for (int64_t t = 0; t < 8; ++t) {
    const Quantized alone = quantize({x.begin() + t * kWidth, x.begin() + (t + 1) * kWidth}, 1,
                                     ScaleLayout::kLinear, 2);
    EXPECT_TRUE(std::equal(alone.codes.begin(), alone.codes.end(), all.codes.begin() + t * kWidth));
    EXPECT_TRUE(
        std::equal(alone.scales.begin(), alone.scales.end(), all.scales.begin() + t * kWidth / 32));
  }
}

TEST(Mxfp8Quantize, TakesNoRows) {
  for (const ScaleLayout layout : {ScaleLayout::kLinear, ScaleLayout::k128x4, ScaleLayout::k8x4})
    EXPECT_EQ(quantize({}, 0, layout, 2), Quantized{});
}

// ---- h: semantics.md section 7

TEST(QuantizeH, ZeroBlockIsCode127) {
  const Quantized q = h_row({0.0F, -0.0F, 0x1p-127F, -0x1p-127F});  // subnormals count as 0
  EXPECT_EQ(q.scales, Bytes{127});
  EXPECT_EQ(q.codes, (Bytes{0x00, 0x80, 0x00, 0x80}));
}

TEST(QuantizeH, NanLosesAgainstNumbersAndStaysNan) {
  EXPECT_EQ(h_row({kNan, 448.0F}), (Quantized{{0x7F, 0x7E}, {127}}));
  EXPECT_EQ(h_row({kNan, -kNan}), (Quantized{{0x7F, 0x7F}, {127}}));
}

TEST(QuantizeH, InfiniteAmaxIsCode255) {
  EXPECT_EQ(h_row({1.0F, kInf}).scales, Bytes{255});
  EXPECT_EQ(h_row({1.0F, -kInf}).scales, Bytes{255});
}

TEST(QuantizeH, CodeZeroHasAnInverse) {
  // amax 2^-126: v = 2^-126 / 448 is below 2^-127, code 0, inverse 2^127.
  EXPECT_EQ(h_row({0x1p-126F}), (Quantized{{0x40}, {0}}));
  EXPECT_EQ(h_row({std::numeric_limits<float>::max()}).scales, Bytes{247});
}

// From binary32, not through BF16: 1.0625 + 2^-20 is above the tie between 1 and 1.125, BF16 would make it the tie.
TEST(QuantizeH, DoesNotRoundThroughBf16) {
  EXPECT_EQ(h_row({256.0F, 1.0625F, 1.0625F + 0x1p-20F}), (Quantized{{0x78, 0x38, 0x39}, {127}}));
  EXPECT_EQ(h_row({448.0F + 0x1p-15F}).scales, Bytes{128});
}

TEST(QuantizeH, CountsBlocksFromColumnZeroAndLeavesColumnsBeyondAlone) {
  std::vector<float> h(80, 1.0F);
  h[79] = 900.0F;
  Bytes codes(96, 0xEE), scales(4, 0xEE);
  quantize_h_row(h.data(), 80, codes.data(), scales.data());
  EXPECT_EQ(scales, (Bytes{119, 119, 129, 0xEE}));
  EXPECT_EQ(codes[0], formats::e4m3_from_f32(256.0F));
  EXPECT_EQ(codes[78], formats::e4m3_from_f32(0.25F));
  for (size_t c = 80; c < 96; ++c) EXPECT_EQ(codes[c], 0xEE);
}

// ---- back to numbers

TEST(DequantizeMxfp8, IsExactForEveryCodeAndScale) {
  for (int scale = 0; scale < 256; ++scale) {
    Bytes codes(256);
    for (size_t c = 0; c < 256; ++c) codes[c] = static_cast<uint8_t>(c);
    const Bytes scales(8, static_cast<uint8_t>(scale));
    std::vector<float> out(256, kNan);
    dequantize_mxfp8_blocks(codes.data(), scales.data(), 256, out.data());
    for (size_t c = 0; c < 256; ++c) {
      const bool nan = scale == 255 || (c & 0x7F) == 0x7F;
      const double want =
          std::ldexp(static_cast<double>(formats::e4m3_to_f32(codes[c])), scale - 127) *
          static_cast<double>(scale < kHeldFrom ? 1.0F : kMxfp8Hold);
      ASSERT_EQ(std::isnan(out[c]), nan) << scale << " " << c;
      if (nan) continue;
      ASSERT_EQ(static_cast<double>(out[c]), want) << scale << " " << c;
    }
  }
}

TEST(DequantizeMxfp8, TakesAShortLastBlock) {
  const Bytes codes(40, 0x38), scales = {127, 128};
  std::vector<float> out(41, -1.0F);
  dequantize_mxfp8_blocks(codes.data(), scales.data(), 40, out.data());
  EXPECT_EQ(out[31], 1);
  EXPECT_EQ(out[39], 2);
  EXPECT_EQ(out[40], -1.0F);
}

TEST(SettleMxfp8, BringsARowToOneHoldByItsOwnCodes) {
  struct Row {
    std::vector<uint8_t> scales;
    uint8_t first_block;  // its E4M3 codes; the others are 1.0
    Hold want;
  };
  const Row kRows[] = {
      {{0, 127, 191}, 0x01, Hold::kNone},      {{0, 127, 192}, 0x01, Hold::kExact},
      {{3, 127, 254}, 0x80 | 1, Hold::kExact}, {{0, 127, 254}, 0x80, Hold::kHeld},  // -0
      {{4, 127, 254}, 0x01, Hold::kHeld},      {{246, 247, 254}, 0x7E, Hold::kHeld},
  };
  for (const Row& row : kRows) {
    Bytes codes(90, 0x38);  // the last block is short
    std::fill_n(codes.begin(), 32, row.first_block);
    std::vector<float> out(91, -1.0F);
    dequantize_mxfp8_blocks(codes.data(), row.scales.data(), 90, out.data());
    EXPECT_EQ(settle_mxfp8_row(row.scales.data(), 90, out.data()), row.want);
    const double hold = row.want == Hold::kNone ? 1.0 : static_cast<double>(kMxfp8Hold);
    for (size_t c = 0; c < 90; ++c) {
      EXPECT_EQ(static_cast<double>(out[c]),
                std::ldexp(static_cast<double>(formats::e4m3_to_f32(codes[c])) * hold,
                           row.scales[c / 32] - 127))
          << c;
    }
    EXPECT_EQ(out[90], -1.0F);
  }
}

}  // namespace
}  // namespace octet::cpu
