// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

#include "core/test_threads.h"
#include "cpu/ops.h"
#include "formats/bf16.h"
#include "formats/e2m1.h"
#include "formats/e4m3.h"

namespace octet::cpu {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr WeightFormat kFormats[] = {WeightFormat::kMxfp4, WeightFormat::kNvfp4};
constexpr double kElements[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

std::vector<float> decode(WeightFormat format, const Bytes& weight, const Bytes& scale,
                          int64_t rows, const std::vector<float>& global = {}, int threads = 1) {
  std::vector<float> value(2 * weight.size(), std::bit_cast<float>(0xFFFFFFFFU));
  TestThreads pool(threads);
  dequantize({.format = format,
              .weight = weight.data(),
              .scale = scale.data(),
              .global_scale = global.empty() ? nullptr : global.data(),
              .num_globals = static_cast<int64_t>(global.size()),
              .rows = rows,
              .width = rows == 0 ? 64 : static_cast<int64_t>(value.size()) / rows,
              .value = value.data()},
             pool);
  return value;
}

// All 16 codes, once or twice, in one block.
Bytes all_codes(WeightFormat format) {
  Bytes pairs;
  for (int64_t i = 0; i < scale_block(format) / 2; ++i)
    pairs.push_back(formats::e2m1_pair(static_cast<uint8_t>(2 * i % 16),
                                       static_cast<uint8_t>((2 * i + 1) % 16)));
  return pairs;
}

// ---- dequantize

// Every element under every scale, the odd ones by their written meaning; the sign of zero counts.
TEST(Dequantize, IsExactForEveryCodeAndScale) {
  for (const WeightFormat format : kFormats) {
    for (int scale = 0; scale < 256; ++scale) {
      const auto byte = static_cast<uint8_t>(scale);
      const std::vector<float> got = decode(format, all_codes(format), {byte}, 1);
      for (size_t i = 0; i < got.size(); ++i) {
        const double element = kElements[i % 8] * (i % 16 < 8 ? 1 : -1);
        double want = format == WeightFormat::kMxfp4
                          ? std::ldexp(element, scale - 127)
                          : element * static_cast<double>(formats::e4m3_to_f32(byte));
        if (format == WeightFormat::kMxfp4 && scale == 255) want = std::nan("");
        if (std::fabs(want) >= 0x1p128) want = std::copysign(static_cast<double>(kInf), want);
        ASSERT_EQ(std::isnan(got[i]), std::isnan(want))
            << name_of(format) << " " << scale << " " << i;
        if (std::isnan(want)) continue;
        ASSERT_EQ(static_cast<double>(got[i]), want) << name_of(format) << " " << scale << " " << i;
        ASSERT_EQ(std::signbit(got[i]), std::signbit(want))
            << name_of(format) << " " << scale << " " << i;
      }
    }
  }
}

TEST(Dequantize, ReadsOddScalesByTheirMeaning) {
  Bytes two(16, 0x22);  // element 1 throughout
  EXPECT_EQ(decode(WeightFormat::kMxfp4, two, {0x00}, 1)[0], 0x1p-127F);
  EXPECT_EQ(decode(WeightFormat::kMxfp4, two, {0xFE}, 1)[0], 0x1p127F);
  EXPECT_TRUE(std::isnan(decode(WeightFormat::kMxfp4, two, {0xFF}, 1)[0]));
  two.resize(8);
  EXPECT_EQ(decode(WeightFormat::kNvfp4, two, {0x00}, 1)[0], 0.0F);
  EXPECT_TRUE(std::signbit(decode(WeightFormat::kNvfp4, two, {0x80}, 1)[0]));
  EXPECT_EQ(decode(WeightFormat::kNvfp4, two, {0xB8}, 1)[0], -1.0F);
  EXPECT_TRUE(std::isnan(decode(WeightFormat::kNvfp4, two, {0x7F}, 1)[0]));
  EXPECT_TRUE(std::isnan(decode(WeightFormat::kNvfp4, two, {0xFF}, 1)[0]));
}

// 2^128 is infinite before the factor, and stays so.
TEST(Dequantize, OverflowsBeforeTheFactor) {
  const std::vector<float> got =
      decode(WeightFormat::kMxfp4, all_codes(WeightFormat::kMxfp4), {254}, 1, {0x1p-20F});
  EXPECT_EQ(got[3], 1.5F * 0x1p107F);
  EXPECT_EQ(got[4], kInf);
  EXPECT_EQ(got[12], -kInf);
}

TEST(Dequantize, RoundsOnceAtTheFactor) {
  const float factor = 1.0F + 0x1p-23F;
  // 6 * 0.4375 = 2.625; the product has 26 significant bits.
  const std::vector<float> got = decode(WeightFormat::kNvfp4, Bytes(8, 0x77), {0x2E}, 1, {factor});
  EXPECT_EQ(got[0], static_cast<float>(2.625 * static_cast<double>(factor)));
  // 1.5 * 2^-127 times 3: exact only if the subnormal is not rounded on the way.
  EXPECT_EQ(decode(WeightFormat::kMxfp4, Bytes(16, 0x33), {0}, 1, {3.0F})[0], 4.5F * 0x1p-127F);
}

TEST(Dequantize, GivesEachMatrixItsFactor) {
  for (const int64_t globals : {1, 2, 6}) {
    std::vector<float> factors;
    for (int64_t i = 0; i < globals; ++i) factors.push_back(static_cast<float>(i + 1));
    const std::vector<float> got =
        decode(WeightFormat::kNvfp4, Bytes(6 * 8, 0x22), Bytes(6, 0x38), 6, factors, 2);
    for (int64_t r = 0; r < 6; ++r)
      EXPECT_EQ(got[static_cast<size_t>(r * 16)], static_cast<float>(r / (6 / globals) + 1))
          << globals << " " << r;
  }
}

TEST(Dequantize, TakesNoRows) {
  EXPECT_TRUE(decode(WeightFormat::kMxfp4, {}, {}, 0, {2.0F}).empty());
}

// ---- quantize_weight

struct Quantized {
  Bytes weight, scale;
  float global = -1.0F;
  friend bool operator==(const Quantized&, const Quantized&) = default;
};

Quantized encode(WeightFormat format, const std::vector<float>& value, int64_t rows,
                 int threads = 1) {
  Quantized q{Bytes(value.size() / 2, 0xFF),
              Bytes(value.size() / static_cast<size_t>(scale_block(format)), 0xFF)};
  TestThreads pool(threads);
  quantize_weight({.format = format,
                   .value_f32 = value.data(),
                   .rows = rows,
                   .width = rows == 0 ? 64 : static_cast<int64_t>(value.size()) / rows,
                   .weight = q.weight.data(),
                   .scale = q.scale.data(),
                   .global_scale = format == WeightFormat::kNvfp4 ? &q.global : nullptr},
                  pool);
  return q;
}

std::vector<float> random_values(size_t count, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> draw(0.0F, 1.0F);
  std::vector<float> v(count);
  for (float& x : v) x = draw(rng) * std::exp2(draw(rng));
  return v;
}

TEST(QuantizeWeight, Mxfp4ScalesRoundUp) {
  std::vector<float> v(32 * 4, 0.0F);
  v[0] = -6.0F;                        // exactly 6 * 2^0
  v[32] = std::nextafter(6.0F, 7.0F);  // needs 2^1
  v[64] = 3.0F;                        // 6 * 2^-1
  v[96] = std::numeric_limits<float>::max();
  const Quantized q = encode(WeightFormat::kMxfp4, v, 2);
  EXPECT_EQ(q.scale, (Bytes{127, 128, 126, 253}));
  EXPECT_EQ(q.weight[0], 0x0F);  // -6; +0
  EXPECT_EQ(q.weight[16], 0x05);
  EXPECT_EQ(q.weight[32], 0x07);
  EXPECT_EQ(q.weight[48], 0x06);  // 4 * 2^126: 1.99.. * 2^127 / 2^126
}

TEST(QuantizeWeight, ZeroBlocksHaveZeroElements) {
  std::vector<float> v(32, 0.0F);
  EXPECT_EQ(encode(WeightFormat::kMxfp4, v, 1).weight, Bytes(16, 0));
  v.resize(16);
  EXPECT_EQ(encode(WeightFormat::kNvfp4, v, 1), (Quantized{Bytes(8, 0), {0}, 1.0F}));
  v.assign(32, 0.0F);
  v[20] = 5.0F;  // the other block is not zero
  EXPECT_EQ(encode(WeightFormat::kNvfp4, v, 1).scale, (Bytes{0, 0x7E}));
}

TEST(QuantizeWeight, ElementsGoToTheNearestTiesToEven) {
  // Under scale 1: 6 sets it; 0.25 -> 0, 0.75 -> 1, 1.25 -> 1, 1.75 -> 2, 2.5 -> 2, 3.5 -> 4, 5 -> 4.
  std::vector<float> v(32, 0.0F);
  const std::vector<float> first = {6,    0.25F, 0.75F,  1.25F,  1.75F, 2.5F,
                                    3.5F, 5,     -5.01F, -0.26F, -0.0F, 0};
  std::copy(first.begin(), first.end(), v.begin());
  const Quantized q = encode(WeightFormat::kMxfp4, v, 1);
  EXPECT_EQ(q.scale[0], 127);
  const Bytes codes = {7, 0, 2, 2, 4, 4, 6, 6, 15, 9, 8, 0};
  for (size_t i = 0; i < codes.size(); ++i)
    EXPECT_EQ(formats::e2m1_at(q.weight.data(), static_cast<int64_t>(i)), codes[i]) << i;
}

TEST(QuantizeWeight, Nvfp4FactorIsAmaxOver2688) {
  const std::vector<float> v = random_values(8 * 64, 1);
  const Quantized q = encode(WeightFormat::kNvfp4, v, 8);
  float amax = 0;
  for (const float x : v) amax = std::max(amax, std::fabs(x));
  EXPECT_EQ(q.global, static_cast<float>(static_cast<double>(amax) / 2688.0));
  for (size_t block = 0; block < q.scale.size(); ++block) {
    double most = 0;
    for (size_t i = 0; i < 16; ++i)
      most = std::max(most, static_cast<double>(std::fabs(v[block * 16 + i])));
    EXPECT_EQ(q.scale[block], formats::e4m3_from_f64(most / 6.0 / static_cast<double>(q.global)))
        << block;
  }
  EXPECT_EQ(*std::max_element(q.scale.begin(), q.scale.end()), 0x7E);
  // The smallest values have a factor above 0 too: loading refuses 0. (The reference's test has the same numbers.)
  std::vector<float> small(16, 0.0F);
  small[0] = 71 * 0x1p-149F;
  small[1] = 6 * 0x1p-149F;
  const Quantized least = encode(WeightFormat::kNvfp4, small, 1);
  EXPECT_EQ(least.global, 0x1p-149F);
  EXPECT_EQ(least.scale[0], 0x54);
  EXPECT_EQ(least.weight[0], 0x17);
}

// Each element comes back as one of the two neighbours of its value.
TEST(QuantizeWeight, ComesBackWithinHalfAStep) {
  for (const WeightFormat format : kFormats) {
    const std::vector<float> v = random_values(6 * 96, 2);
    const Quantized q = encode(format, v, 6);
    const std::vector<float> back =
        decode(format, q.weight, q.scale, 6,
               q.global > 0 ? std::vector<float>{q.global} : std::vector<float>{});
    for (size_t i = 0; i < v.size(); ++i) {
      double amax = 0;
      const auto block = static_cast<size_t>(scale_block(format));
      for (size_t j = i / block * block; j < (i / block + 1) * block; ++j)
        amax = std::max(amax, static_cast<double>(std::fabs(v[j])));
      // Half the widest step, 2 of 6, of a scale at most doubled by rounding up; NVFP4's may also be 1/16 too small.
      EXPECT_LE(std::fabs(static_cast<double>(back[i]) - static_cast<double>(v[i])), amax / 3.0)
          << name_of(format) << " " << i;
    }
    if (format == WeightFormat::kNvfp4) continue;  // a new amax would give a new factor
    const Quantized again = encode(format, back, 6);
    EXPECT_EQ(decode(format, again.weight, again.scale, 6), back) << "what is representable stays";
  }
}

TEST(QuantizeWeight, TakesBf16AndAnyThreads) {
  for (const WeightFormat format : kFormats) {
    std::vector<float> v = random_values(5 * 64, 3);
    std::vector<Bf16> narrow;
    for (float& x : v) {
      narrow.push_back(formats::bf16_from_f32(x));
      x = formats::bf16_to_f32(narrow.back());
    }
    const Quantized want = encode(format, v, 5);
    for (const int threads : {2, 3}) EXPECT_EQ(encode(format, v, 5, threads), want);
    Quantized q{Bytes(want.weight.size(), 0xFF), Bytes(want.scale.size(), 0xFF)};
    TestThreads pool(1);
    quantize_weight({.format = format,
                     .value_bf16 = narrow.data(),
                     .rows = 5,
                     .width = 64,
                     .weight = q.weight.data(),
                     .scale = q.scale.data(),
                     .global_scale = format == WeightFormat::kNvfp4 ? &q.global : nullptr},
                    pool);
    EXPECT_EQ(q, want);
  }
}

TEST(QuantizeWeight, TakesNoRows) { EXPECT_EQ(encode(WeightFormat::kNvfp4, {}, 0).global, 1.0F); }

}  // namespace
}  // namespace octet::cpu
