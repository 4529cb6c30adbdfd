// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

#include "reference/reference.h"

namespace octet::reference {
namespace {

using Bytes = std::vector<uint8_t>;
constexpr int64_t kE = 2, kH = 256, kI = 96, kIp = 128;

Bytes random_bytes(int64_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  Bytes b(n);
  for (uint8_t& v : b)
    v = static_cast<uint8_t>(1 + rng() % 255);  // no 0: that is what padding holds
  return b;
}

struct Raw {
  Bytes gate, up, gate_scale, up_scale, down, down_scale;
};
struct Prepared {
  Bytes w13, w13_scale, w2, w2_scale;
  std::vector<float> clamp;
};

Raw raw_weights() {
  return {random_bytes(kE * kI * kH / 2, 1),  random_bytes(kE * kI * kH / 2, 2),
          random_bytes(kE * kI * kH / 32, 3), random_bytes(kE * kI * kH / 32, 4),
          random_bytes(kE * kH * kI / 2, 5),  random_bytes(kE * kH * kI / 32, 6)};
}

Prepared prepared_of(const Raw& r) {
  Prepared p{Bytes(kE * 2 * kIp * kH / 2, 0xFF), Bytes(kE * 2 * kIp * kH / 32, 0xFF),
             Bytes(kE * kH * kIp / 2, 0xFF), Bytes(kE * kH * kIp / 32, 0xFF),
             std::vector<float>(kE, -1.0F)};
  prepare({r.gate.data(), r.up.data(), r.gate_scale.data(), r.up_scale.data(), r.down.data(),
           r.down_scale.data(), 10.0F, kE, kH, kI, p.w13.data(), p.w13_scale.data(), p.w2.data(),
           p.w2_scale.data(), p.clamp.data()});
  return p;
}

TEST(Prepare, StoredRowsHoldUpAndGateInTheOrderOfSection6) {
  const Raw r = raw_weights();
  const Prepared p = prepared_of(r);
  struct Case {
    int64_t stored, column;
    bool is_gate;
  };
  // Interleaved row 2 c is up c, 2 c + 1 gate c; stored row n holds interleaved row 32 (n/32) + 4 (n%8) + (n%32)/8.
  for (const Case& c : {Case{0, 0, false}, Case{8, 0, true}, Case{16, 1, false}, Case{24, 1, true},
                        Case{1, 2, false}, Case{7, 14, false}, Case{31, 15, true},
                        Case{32, 16, false}, Case{191, 95, true}}) {
    const Bytes& codes = c.is_gate ? r.gate : r.up;
    const Bytes& scales = c.is_gate ? r.gate_scale : r.up_scale;
    for (int64_t e = 0; e < kE; ++e) {
      for (const int64_t b : {int64_t{0}, int64_t{77}, kH / 2 - 1}) {
        EXPECT_EQ(p.w13[(e * 2 * kIp + c.stored) * kH / 2 + b],
                  codes[(e * kI + c.column) * kH / 2 + b])
            << c.stored;
      }
      // 128x4: atoms of 128 rows by 4 columns, two across.
      const int64_t n = c.stored;
      EXPECT_EQ(
          p.w13_scale[e * 2 * kIp * 8 + n / 128 * 1024 + 512 + n % 32 * 16 + n % 128 / 32 * 4 + 2],
          scales[(e * kI + c.column) * 8 + 6]);
    }
  }
}

TEST(Prepare, W2ShufflesItsRowsAndNotItsColumns) {
  const Raw r = raw_weights();
  const Prepared p = prepared_of(r);
  for (const auto& [stored, channel] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 0}, {1, 4}, {8, 1}, {31, 31}, {33, 36}, {255, 255}}) {
    EXPECT_EQ(p.w2[(kH + stored) * kIp / 2 + 47], r.down[(kH + channel) * kI / 2 + 47]);
    EXPECT_EQ(p.w2[(kH + stored) * kIp / 2 + 48], 0) << "padding";
    const int64_t at = kH * 4 + stored / 128 * 512 + stored % 32 * 16 + stored % 128 / 32 * 4;
    EXPECT_EQ(p.w2_scale[at + 2], r.down_scale[(kH + channel) * 3 + 2]);
    EXPECT_EQ(p.w2_scale[at + 3], 0) << "padding";
  }
}

TEST(Prepare, PaddingIsZeroBytesAndTheClampIsTheLimit) {
  const Prepared p = prepared_of(raw_weights());
  for (int64_t b = 2 * kI * kH / 2; b < 2 * kIp * kH / 2; ++b) ASSERT_EQ(p.w13[b], 0) << b;
  int64_t zeros = 0;
  for (const uint8_t s : p.w13_scale) zeros += s == 0 ? 1 : 0;
  EXPECT_EQ(zeros, kE * 2 * (kIp - kI) * kH / 32);
  EXPECT_EQ(p.clamp, std::vector<float>(kE, 10.0F));
}

TEST(Unprepare, GivesBackEveryByte) {
  const Raw r = raw_weights();
  const Prepared p = prepared_of(r);
  Raw back;
  const auto room = [](const Bytes& like) { return Bytes(like.size(), 0xFF); };
  back = {room(r.gate),     room(r.up),   room(r.gate_scale),
          room(r.up_scale), room(r.down), room(r.down_scale)};
  unprepare({p.w13.data(), p.w13_scale.data(), p.w2.data(), p.w2_scale.data(), kE, kH, kIp, kI,
             back.gate.data(), back.up.data(), back.gate_scale.data(), back.up_scale.data(),
             back.down.data(), back.down_scale.data()});
  EXPECT_EQ(back.gate, r.gate);
  EXPECT_EQ(back.up, r.up);
  EXPECT_EQ(back.gate_scale, r.gate_scale);
  EXPECT_EQ(back.up_scale, r.up_scale);
  EXPECT_EQ(back.down, r.down);
  EXPECT_EQ(back.down_scale, r.down_scale);
}

// ---- check_weights

// Usable tensors of the smallest sizes: 32 experts, H 128, I 32 of 128.
struct Usable {
  static constexpr int64_t kExperts = 32, kHidden = 128, kColumns = 32;
  Tensor w13{Dtype::kU8, {kExperts, 2 * 128, kHidden / 2}};
  Tensor w13_scale{Dtype::kU8, {kExperts, 2 * 128, kHidden / 32}};
  Tensor w2{Dtype::kU8, {kExperts, kHidden, 128 / 2}};
  Tensor w2_scale{Dtype::kU8, {kExperts, kHidden, 128 / 32}};
  Tensor clamp{Dtype::kF32, {kExperts}};
  CheckWeightsArgs args() const {
    return {w13.view(), w13_scale.view(), w2.view(), w2_scale.view(), clamp.view(), 6, kColumns};
  }
};

TEST(CheckWeights, TakesZeroPaddingAndAnyCodesBesideIt) {
  Usable u;
  EXPECT_TRUE(check_weights(u.args()).ok()) << check_weights(u.args()).why;
  u.w13.as<uint8_t>()[63 * 64] = 1;       // row 63 of expert 0 holds gate 31
  u.w2.as<uint8_t>()[5 * 64 + 15] = 255;  // columns 30 and 31
  EXPECT_TRUE(check_weights(u.args()).ok()) << check_weights(u.args()).why;
}

TEST(CheckWeights, FindsPaddingThatIsNotZero) {
  Usable u;
  uint8_t& w13 = u.w13.as<uint8_t>()[(256 + 64) * 64 + 7];  // expert 1, up 32
  w13 = 9;
  EXPECT_EQ(check_weights(u.args()).why, "w13: padding byte [1, 64, 7] is 9, want 0");
  w13 = 0;
  uint8_t& w2 = u.w2.as<uint8_t>()[(3 * 128 + 5) * 64 + 16];
  w2 = 16;  // the high nibble: column 33
  EXPECT_EQ(check_weights(u.args()).why, "w2: padding byte [3, 5, 16] is 16, want 0");
  CheckWeightsArgs odd = u.args();
  odd.intermediate = 33;
  EXPECT_FALSE(check_weights(odd).ok()) << "half a byte of padding";
}

TEST(CheckWeights, RefusesSizesWithTheValuesFoundAndWanted) {
  const Usable u;
  const auto why = [&](const auto& spoil) {
    CheckWeightsArgs a = u.args();
    spoil(a);
    return check_weights(a).why;
  };
  EXPECT_EQ(why([](auto& a) { a.w13.dims[0] = 16; }),
            "w13: experts 16, want a multiple of 32 in 32..384");
  EXPECT_EQ(why([](auto& a) { a.w2.dims[0] = 64; }), "w2: shape [64, 128, 64], want [32, 128, 64]");
  EXPECT_EQ(why([](auto& a) { a.w13_scale = {}; }), "w13_scale: missing, want U8 [32, 256, 4]");
  EXPECT_EQ(why([](auto& a) { a.w2_scale.data += 8; }),
            "w2_scale: address is 8 past a multiple of 16, want a multiple");
  EXPECT_EQ(why([](auto& a) { a.w13.dtype = Dtype::kF16; }),
            "w13: dtype F16, want 1-byte elements");
  EXPECT_EQ(why([](auto& a) { a.clamp.dims = {31}; }), "clamp: F32 [31], want F32 [32]");
  EXPECT_EQ(why([](auto& a) { a.top_k = 9; }), "top_k 9, want 1..8");
  EXPECT_EQ(why([](auto& a) { a.intermediate = 0; }), "intermediate 0, want 1..2147483648");
  EXPECT_EQ(why([](auto& a) { a.intermediate = std::numeric_limits<int64_t>::max(); }),
            "intermediate 9223372036854775807, want 1..2147483648");
}

}  // namespace
}  // namespace octet::reference
