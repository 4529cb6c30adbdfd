// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <vector>

#include "formats/bf16.h"
#include "formats/e2m1.h"
#include "formats/e4m3.h"
#include "reference/reference.h"

namespace octet::reference {
namespace {

using Bytes = std::vector<uint8_t>;
constexpr int64_t kE = 2, kH = 128, kI = 32, kIp = 128;
constexpr uint8_t kOne = 0x38;  // 1.0 in E4M3

// One token that goes to expert 1. x is 1 in column 0 and 0 elsewhere, so that up and gate of h column c are the first
// elements of their rows; tests set those.
struct Problem {
  Bytes gate = Bytes(kE * kI * kH / 2), up = gate, gate_scale = Bytes(kE * kI * kH / 32, 127);
  Bytes up_scale = gate_scale, down = Bytes(kE * kH * kI / 2), down_scale = Bytes(kE * kH, 127);
  Bytes x = Bytes(kH), x_scale = Bytes(kH / 32, 127);
  std::vector<int32_t> record = std::vector<int32_t>(4 + 8 + 8);
  Bytes w13 = Bytes(kE * 2 * kIp * kH / 2), w13_scale = Bytes(kE * 2 * kIp * kH / 32);
  Bytes w2 = Bytes(kE * kH * kIp / 2), w2_scale = Bytes(kE * kH * kIp / 32);
  std::vector<float> clamp = std::vector<float>(kE);
  Bytes h = Bytes(8 * kIp, 0xFF), h_scale = Bytes(kIp * 4, 0xFF);
  std::vector<Bf16> rows = std::vector<Bf16>(8 * kH, Bf16{0xFFFF});

  Problem() {
    x[0] = kOne;
    const int32_t id = 1;
    int32_t permuted = 0;
    route({{&id, false}, 1, 1, kE, &permuted, record.data()});
  }
  void set(Bytes& codes, int64_t column, uint8_t code) { codes[(kI + column) * kH / 2] = code; }
  void prepared(float limit) {
    prepare({gate.data(), up.data(), gate_scale.data(), up_scale.data(), down.data(),
             down_scale.data(), limit, kE, kH, kI, w13.data(), w13_scale.data(), w2.data(),
             w2_scale.data(), clamp.data()});
  }
  void run_gemm1(float limit = 10.0F) {
    prepared(limit);
    for (int64_t n = 2 * kI; n < 2 * kIp; ++n) {  // the padding is NaN now: it is never read
      uint8_t* line = &w13_scale[kIp * 8 + n / 128 * 512 + n % 32 * 16 + n % 128 / 32 * 4];
      std::fill_n(line, 4, uint8_t{255});
    }
    gemm1({x.data(), x_scale.data(), record.data(), w13.data(), w13_scale.data(), clamp.data(), 1,
           1, kE, kH, kIp, kI, h.data(), h_scale.data()});
  }
  double h_at(int64_t column) const {
    return std::ldexp(formats::e4m3_to_f32(h[column]), h_scale[column / 32] - 127);
  }
};

double silu(double g) { return g / (1 + std::exp(-g)); }

TEST(Gemm1, HIsUpTimesSiluOfGate) {
  Problem p;
  for (int64_t c = 0; c < kI; ++c) {
    p.set(p.up, c, static_cast<uint8_t>(c % 16));
    p.set(p.gate, c, static_cast<uint8_t>(c / 2 % 16));
  }
  p.run_gemm1();
  for (int64_t c = 0; c < kI; ++c) {
    const double want = formats::e2m1_to_f32(static_cast<uint8_t>(c % 16)) *
                        silu(formats::e2m1_to_f32(static_cast<uint8_t>(c / 2 % 16)));
    EXPECT_NEAR(p.h_at(c), want, std::fabs(want) / 16 + 1e-3) << c;
  }
  EXPECT_EQ(p.h_scale[0], 124);  // the largest is 6 * silu(6) = 35.9, between 28 and 56 = 448 / 8
}

TEST(Gemm1, ClampsUpOnBothSidesAndGateFromAbove) {
  Problem p;
  p.set(p.up, 0, 7), p.set(p.gate, 0, 7);    // 6, 6
  p.set(p.up, 1, 15), p.set(p.gate, 1, 15);  // -6, -6
  p.run_gemm1(2.0F);
  EXPECT_NEAR(p.h_at(0), 2 * silu(2), 0.1);
  EXPECT_NEAR(p.h_at(1), -2 * silu(-6), 0.001);
}

TEST(Gemm1, ZeroBlocksHaveCode127AndPaddingIsZero) {
  Problem p;
  p.run_gemm1();
  for (int64_t b = 0; b < kIp / 32; ++b) EXPECT_EQ(p.h_scale[b], 127);
  for (int64_t c = 0; c < kIp; ++c) EXPECT_EQ(p.h[c] & 0x7F, 0) << c;
  for (int64_t c = kI; c < kIp; ++c) EXPECT_EQ(p.h[c], 0) << c;
}

TEST(Gemm1, RowsBeyondTheLimitAreNotWritten) {
  Problem p;
  p.run_gemm1();
  for (size_t i = kIp; i < p.h.size(); ++i) ASSERT_EQ(p.h[i], 0xFF) << i;
  for (size_t i = kIp / 32; i < p.h_scale.size(); ++i) ASSERT_EQ(p.h_scale[i], 0xFF) << i;
}

TEST(Gemm1, NanIsLeftOutOfTheScaleAndBecomes7F) {
  Problem p;
  p.set(p.up, 0, 7), p.set(p.gate, 0, 7);
  p.up_scale[(kI + 5) * kH / 32] = 255;
  p.run_gemm1();
  EXPECT_EQ(p.h[5], 0x7F);
  EXPECT_NEAR(p.h_at(0), 6 * silu(6), 1);
  EXPECT_EQ(p.h_scale[0], 124);  // 448 / 8 = 56
}

TEST(Gemm1, InfiniteWeightTimesZeroIsNan) {
  Problem p;
  p.up_scale[(kI + 5) * kH / 32] = 254;
  p.set(p.up, 5, 0x70);  // element 1, where x is 0
  p.run_gemm1();
  EXPECT_EQ(p.h[5], 0x7F);
}

TEST(Gemm1, MinusInfiniteGateGivesZeroNotNan) {
  Problem p;
  p.gate_scale[(kI + 3) * kH / 32] = 254;
  for (int64_t k = 0; k < 32; ++k) p.x[k] = kOne;
  for (int64_t b = 0; b < 16; ++b) p.gate[(kI + 3) * kH / 2 + b] = 0xFF;
  p.set(p.up, 3, 7);
  p.run_gemm1();
  EXPECT_EQ(p.h[3] & 0x7F, 0);
}

TEST(Gemm2, RowsAreUnshuffledAndOnlyTheRoutedOnesWritten) {
  Problem p;
  for (int64_t n = 0; n < kH; ++n) p.down[(kH + n) * kI / 2] = static_cast<uint8_t>(n % 16);
  p.prepared(10.0F);
  for (int64_t c = 0; c < kIp; ++c) p.h[c] = 0;
  p.h[0] = kOne;
  for (int64_t b = 0; b < kIp / 32; ++b) p.h_scale[b] = 128;  // 2
  gemm2({p.h.data(), p.h_scale.data(), p.record.data(), p.w2.data(), p.w2_scale.data(), 1, 1, kE,
         kH, kIp, p.rows.data()});
  for (int64_t n = 0; n < kH; ++n) {
    EXPECT_EQ(formats::bf16_to_f32(p.rows[n]),
              2 * formats::e2m1_to_f32(static_cast<uint8_t>(n % 16)));
  }
  for (size_t i = kH; i < p.rows.size(); ++i) ASSERT_EQ(p.rows[i].bits, 0xFFFF) << i;
}

struct Finalized {
  std::vector<Bf16> rows = {{0x7FC0}, {0x3F80}, {0x4000}};  // NaN, 1, 2
  uint16_t operator()(std::vector<float> w, std::vector<int32_t> permuted, float scale = 1.0F,
                      const Bf16* shared = nullptr) const {
    Bf16 y{0xFFFF};
    finalize({rows.data(), w.data(), permuted.data(), shared, scale, 1,
              static_cast<int64_t>(w.size()), 1, &y});
    return y.bits;
  }
};

TEST(Finalize, SumsWeightedRowsAndNeverReadsSkippedSlots) {
  const Finalized f;
  EXPECT_EQ(f({0.5F, 0.25F}, {1, 2}), 0x3F80);
  EXPECT_EQ(f({0.5F, 7.0F, 0.25F}, {1, -1, 2}), 0x3F80);
  EXPECT_EQ(f({1.0F, 1.0F}, {-1, -1}), 0x0000);
  EXPECT_EQ(f({std::nanf(""), 1.0F}, {-1, 1}), 0x3F80)
      << "a skipped slot's weight is not read either";
}

TEST(Finalize, ScalesTheRoutedSumAloneAndRoundsOnce) {
  const Finalized f;
  const Bf16 shared{0x4040};                              // 3
  EXPECT_EQ(f({1.0F}, {2}, 2.0F, &shared), 0x40E0);       // 2 * 2 + 3
  const Bf16 tiny{0x3B00};                                // 2^-9
  EXPECT_EQ(f({1.00390625F}, {1}, 1.0F, &tiny), 0x3F81);  // 1 + 2^-8 is a tie; 2^-9 more decides it
}

}  // namespace
}  // namespace octet::reference
