// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/matrix/operand.h"

#include <gtest/gtest.h>

namespace octet::ptxsim::matrix {
namespace {

struct Shared {
  std::vector<uint8_t> bytes = std::vector<uint8_t>(1 << 16, 0xFF);
  Result<const uint8_t*> operator()(uint32_t address, int count) const {
    if (address + static_cast<uint32_t>(count) > bytes.size()) return invalid_argument("outside");
    return bytes.data() + address;
  }
};

TEST(Operand, E2m1InTheGapsOfATile) {
  // Row r, element k: byte r * 128 + ((k/16) ^ (r%8)) * 16 + (k%16)/2, nibble k%2; the second step of 32 elements.
  const SharedLayout layout = {Swizzle::k128, 0x1000 + 32, 16, 1024};
  Shared shared;
  const auto code = [](int r, int k) { return static_cast<uint32_t>((r * 5 + k * 3) % 16); };
  for (int r = 0; r < 128; ++r) {
    for (int k = 0; k < 128; k += 2)
      shared.bytes[static_cast<size_t>(0x1000 + r * 128 + ((k / 16) ^ (r % 8)) * 16 + k % 16 / 2)] =
          static_cast<uint8_t>(code(r, k) | code(r, k + 1) << 4);
  }
  const auto codes = read_operand(layout, {Format::kE2m1, Major::kK, 128, 32}, shared);
  ASSERT_TRUE(codes.ok());
  for (int r = 0; r < 128; ++r) {
    for (int k = 0; k < 32; ++k)
      EXPECT_EQ((*codes)[static_cast<size_t>(r * 32 + k)], code(r, 32 + k)) << r << " " << k;
  }
}

TEST(Operand, Bf16InBothMajors) {
  Shared shared;
  const auto put = [&](uint32_t address, uint32_t code) {
    shared.bytes[address] = static_cast<uint8_t>(code);
    shared.bytes[address + 1] = static_cast<uint8_t>(code >> 8);
  };
  const auto code = [](uint32_t row, uint32_t k) { return row << 8 | k; };
  // MN-major without a swizzle: rows side by side, 8 of them 16 bytes; SBO to the next 8 rows, LBO to the next 8 k.
  const SharedLayout layout = {Swizzle::kNone, 0, 0x400, 0x80};
  for (uint32_t row = 0; row < 64; ++row) {
    for (uint32_t k = 0; k < 16; ++k)
      put(row % 8 * 2 + row / 8 * 0x80 + k % 8 * 16 + k / 8 * 0x400, code(row, k));
  }
  const auto codes = read_operand(layout, {Format::kBf16, Major::kMn, 64, 16}, shared);
  ASSERT_TRUE(codes.ok());
  for (uint32_t row = 0; row < 64; ++row) {
    for (uint32_t k = 0; k < 16; ++k) EXPECT_EQ((*codes)[row * 16 + k], code(row, k));
  }
  // K-major over the same bytes: what was row is k.
  const SharedLayout turned = {Swizzle::kNone, 0, 0x80, 0x400};
  const auto same = read_operand(turned, {Format::kBf16, Major::kK, 16, 64}, shared);
  ASSERT_TRUE(same.ok());
  for (uint32_t row = 0; row < 64; ++row) {
    for (uint32_t k = 0; k < 16; ++k) EXPECT_EQ((*same)[k * 64 + row], code(row, k));
  }
}

TEST(Operand, SixBitsAreLowFirst) {
  uint8_t chunk[16] = {};
  for (int i = 0; i < 16; ++i) {
    const uint32_t code = static_cast<uint32_t>(i * 7 + 1) & 63U;
    for (int bit = 0; bit < 6; ++bit) {
      const int at = 6 * i + bit;
      chunk[at / 8] = static_cast<uint8_t>(chunk[at / 8] | (code >> bit & 1) << at % 8);
    }
  }
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(chunk_element(chunk, 6, i), static_cast<uint32_t>(i * 7 + 1) & 63U);
  EXPECT_EQ(chunk_used_bytes(6), 12);
}

TEST(Operand, ReadsOnlyWhatHoldsElements) {
  const SharedLayout layout = {Swizzle::kNone, 0, 128, 256};
  int read = 0;
  const uint8_t zeros[16] = {};
  const auto count = [&](uint32_t, int bytes) -> Result<const uint8_t*> {
    EXPECT_EQ(bytes, 8);
    ++read;
    return zeros;
  };
  ASSERT_TRUE(read_operand(layout, {Format::kE2m1, Major::kK, 8, 32}, count).ok());
  EXPECT_EQ(read, 16);
}

TEST(Operand, AnAddressOutsideIsTheReadersError) {
  const SharedLayout layout = {Swizzle::k128, 0xFC00, 16, 1024};
  EXPECT_TRUE(read_operand(layout, {Format::kE4m3, Major::kK, 8, 32}, Shared()).ok());
  EXPECT_EQ(read_operand(layout, {Format::kE4m3, Major::kK, 16, 32}, Shared()).status().why,
            "outside");
}

}  // namespace
}  // namespace octet::ptxsim::matrix
