// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <vector>

#include "reference/reference.h"

namespace octet::reference {
namespace {

using Bytes = std::vector<uint8_t>;
using Floats = std::vector<float>;

Floats dequantised(WeightFormat format, const Bytes& weight, const Bytes& scale, int64_t rows,
                   const Floats& global = {}) {
  Floats v(weight.size() * 2, std::nanf(""));
  dequantize({format, weight.data(), scale.data(), global.empty() ? nullptr : global.data(),
              static_cast<int64_t>(global.size()), rows, static_cast<int64_t>(v.size()) / rows,
              v.data()});
  return v;
}

TEST(Dequantize, Mxfp4OddScales) {
  Bytes weight(16 * 4, 0x71);  // 0.5 and 6 in turn
  const Floats v = dequantised(WeightFormat::kMxfp4, weight, {127, 0, 254, 255}, 1);
  EXPECT_EQ(v[0], 0.5F);
  EXPECT_EQ(v[1], 6.0F);
  EXPECT_EQ(v[32], 0x1p-128F) << "code 0 is 2^-127, not 0";
  EXPECT_EQ(v[33], 6 * 0x1p-127F);
  EXPECT_EQ(v[64], 0x1p126F);
  EXPECT_TRUE(std::isinf(v[65]));
  EXPECT_TRUE(std::isnan(v[96]) && std::isnan(v[97]));
}

TEST(Dequantize, Nvfp4ScalesMayBeNegativeOrNan) {
  const Floats v = dequantised(WeightFormat::kNvfp4, Bytes(32, 0xF2), {0x38, 0xC0, 0x7F, 0x01}, 1);
  EXPECT_EQ(v[0], 1.0F);
  EXPECT_EQ(v[1], -6.0F);
  EXPECT_EQ(v[16], -2.0F);
  EXPECT_EQ(v[17], 12.0F);
  EXPECT_TRUE(std::isnan(v[32]));
  EXPECT_EQ(v[48], 0x1p-9F);
}

TEST(Dequantize, TheFactorIsOfTheMatrixAndRoundsOnce) {
  const Floats v =
      dequantised(WeightFormat::kNvfp4, Bytes(8 * 4, 0x23), {0x38, 0x38, 0x38, 0x38}, 4, {0.1F, 3});
  EXPECT_EQ(v[0], 1.5F * 0.1F);
  EXPECT_EQ(v[16], 1.5F * 0.1F);
  EXPECT_EQ(v[32], 4.5F);
  EXPECT_EQ(v[63], 3.0F);
}

struct Quantised {
  Bytes weight, scale;
  float global = -1;
};

Quantised quantised(WeightFormat format, const Floats& v, int64_t rows) {
  const auto n = static_cast<int64_t>(v.size());
  Quantised q{Bytes(n / 2, 0xFF), Bytes(n / scale_block(format), 0xFF)};
  quantize_weight(
      {format, v.data(), nullptr, rows, n / rows, q.weight.data(), q.scale.data(), &q.global});
  return q;
}

TEST(QuantizeWeight, Mxfp4ScalesRoundUpSoThatNothingSaturates) {
  Floats v(96, 0.0F);
  v[0] = 6.0F;
  v[1] = -0.25F;                       // a tie between 0 and 0.5: to 0, with its sign
  v[2] = 0.75F;                        // a tie between 0.5 and 1: to 1
  v[32] = std::nextafter(6.0F, 7.0F);  // needs the next scale: 3
  v[33] = -1.0F;
  const Quantised q = quantised(WeightFormat::kMxfp4, v, 1);
  EXPECT_EQ(q.scale, (Bytes{127, 128, 0}));
  EXPECT_EQ(q.weight[0], 0x87);
  EXPECT_EQ(q.weight[1], 0x02);
  EXPECT_EQ(q.weight[16], 0x95);
  for (size_t i = 32; i < 48; ++i) EXPECT_EQ(q.weight[i], 0) << "a zero block";
}

TEST(QuantizeWeight, Mxfp4TakesBf16AndSubnormals) {
  std::vector<Bf16> v(32, Bf16{0x0001});  // 2^-133
  Bytes weight(16, 0xFF);
  Bytes scale(1, 0xFF);
  quantize_weight({WeightFormat::kMxfp4, nullptr, v.data(), 1, 32, weight.data(), scale.data()});
  EXPECT_EQ(scale[0], 0);
  EXPECT_EQ(weight[0], 0) << "2^-6 of the smallest scale is nearest to 0";
  v[0] = {0x0020};  // 2^-128
  quantize_weight({WeightFormat::kMxfp4, nullptr, v.data(), 1, 32, weight.data(), scale.data()});
  EXPECT_EQ(weight[0], 1);
}

TEST(QuantizeWeight, Nvfp4LargestElementUnderTheLargestScaleIsAmax) {
  Floats v(32, 0.0F);
  v[0] = -2688.0F;
  v[16] = 6.0F * 32;
  v[17] = 32.0F;
  const Quantised q = quantised(WeightFormat::kNvfp4, v, 1);
  EXPECT_EQ(q.global, 1.0F);
  EXPECT_EQ(q.scale, (Bytes{0x7E, 0x60}));  // 448 and 32
  EXPECT_EQ(q.weight[0], 0x0F);
  EXPECT_EQ(q.weight[8], 0x27);
}

// amax / 2688 rounds to 0 in binary32: the least factor above 0 keeps the values.
TEST(QuantizeWeight, Nvfp4KeepsTheSmallestValues) {
  Floats v(16, 0.0F);
  v[0] = 71 * 0x1p-149F;  // 1e-43
  v[1] = 6 * 0x1p-149F;
  const Quantised q = quantised(WeightFormat::kNvfp4, v, 1);
  EXPECT_EQ(q.global, 0x1p-149F);
  EXPECT_EQ(q.scale, (Bytes{0x54}));  // 71 / 6 to E4M3: 12
  EXPECT_EQ(q.weight[0], 0x17);       // 71 / 12 to E2M1: 6; 6 / 12: 0.5
}

TEST(QuantizeWeight, Nvfp4ZeroTensorHasFactorOneAndZeroCodes) {
  const Quantised q = quantised(WeightFormat::kNvfp4, Floats(32, -0.0F), 2);
  EXPECT_EQ(q.global, 1.0F);
  EXPECT_EQ(q.scale, (Bytes{0, 0}));
  EXPECT_EQ(q.weight, Bytes(16, 0));
}

}  // namespace
}  // namespace octet::reference
