// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <gtest/gtest.h>
#include <vector>

#include "reference/reference.h"

namespace octet::reference {
namespace {

struct Quantised {
  std::vector<uint8_t> x, scale;
};

Quantised quantise(const std::vector<Bf16>& x, int64_t tokens, ScaleLayout layout, size_t bytes) {
  Quantised q{std::vector<uint8_t>(x.size(), 0xFF), std::vector<uint8_t>(bytes, 0xFF)};
  mxfp8_quantize({x.data(), tokens, tokens == 0 ? 32 : static_cast<int64_t>(x.size()) / tokens,
                  layout, q.x.data(), q.scale.data()});
  return q;
}

// One block of 32: `first`, then `rest` 31 times.
Quantised block(uint16_t first, uint16_t rest) {
  std::vector<Bf16> x(32, Bf16{rest});
  x[0] = {first};
  return quantise(x, 1, ScaleLayout::kLinear, 1);
}

void expect_block(const Quantised& q, int scale, int first, int rest) {
  EXPECT_EQ(q.scale[0], scale);
  EXPECT_EQ(q.x[0], first);
  for (size_t i = 1; i < 32; ++i) EXPECT_EQ(q.x[i], rest) << i;
}

TEST(Mxfp8Quantize, OddBlocksFollowTheTableOfSection3) {
  expect_block(block(0x8000, 0x0000), 0, 0x80, 0x00);    // zeros keep their sign
  expect_block(block(0xFF80, 0xBF80), 254, 0x7E, 0x80);  // -Inf is +448, finite are 0
  expect_block(block(0x7FC0, 0x7F80), 254, 0x7E, 0x7E);  // NaN beside Inf
  expect_block(block(0x7FC0, 0x43E0), 127, 0x7E, 0x7E);  // 448 beside NaN
  expect_block(block(0xFFC0, 0x7FC0), 254, 0x7E, 0x7E);  // all NaN
}

TEST(Mxfp8Quantize, SignallingNanLosesAgainstNumbersToo) {
  std::vector<Bf16> x(32, Bf16{0x43E0});  // 448
  x[31] = {0x7F81};
  EXPECT_EQ(quantise(x, 1, ScaleLayout::kLinear, 1).scale[0], 127);
}

TEST(Mxfp8Quantize, ScaleRoundsUpSoThatNothingSaturates) {
  expect_block(block(0x3F80, 0x3F00), 119, 0x78, 0x70);  // 1 = 256 * 2^-8, 0.5
  expect_block(block(0x43E0, 0x3F80), 127, 0x7E, 0x38);  // 448 and 1
  expect_block(block(0x43E1, 0x3F80), 128, 0x76, 0x30);  // 450 is 224 in steps of 2
}

TEST(Mxfp8Quantize, SubnormalScalesAreNotFlushed) {
  // 2^-118 / 448 lies in (2^-127, 2^-126): code 1. 2^-119 / 448 is below 2^-127: code 0, and then nothing is left.
  expect_block(block(0x0480, 0x0000), 1, 0x78, 0x00);
  expect_block(block(0x0400, 0x0000), 0, 0x00, 0x00);
}

TEST(Mxfp8Quantize, SwizzledScalesStandInTheirAtomsAndPaddingIsZero) {
  // 2 rows of 5 blocks; row t, block b is 2^b (t = 0) or 2^(b + 8) everywhere.
  std::vector<Bf16> x(2 * 160);
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t exponent = 127 + i % 160 / 32 + i / 160 * 8;
    x[i] = {static_cast<uint16_t>(exponent << 7)};
  }
  const Quantised linear = quantise(x, 2, ScaleLayout::kLinear, 10);
  const Quantised wide = quantise(x, 2, ScaleLayout::k128x4, 1024);
  const Quantised narrow = quantise(x, 2, ScaleLayout::k8x4, 64);
  size_t sum = 0;
  for (size_t t = 0; t < 2; ++t) {
    for (size_t b = 0; b < 5; ++b) {
      const size_t scale = 119 + b + 8 * t;
      EXPECT_EQ(linear.scale[t * 5 + b], scale);
      EXPECT_EQ(wide.scale[b / 4 * 512 + t * 16 + b % 4], scale);
      EXPECT_EQ(narrow.scale[b / 4 * 32 + t * 4 + b % 4], scale);
      sum += scale;
    }
  }
  for (const Quantised* q : {&wide, &narrow}) {
    size_t all = 0;
    for (const uint8_t s : q->scale) all += s;
    EXPECT_EQ(all, sum) << "padding is 0";
  }
}

TEST(Mxfp8Quantize, NoRowsWriteNothing) { quantise({}, 0, ScaleLayout::k128x4, 0); }

}  // namespace
}  // namespace octet::reference
