// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/matrix/shared_layout.h"

#include <gtest/gtest.h>

namespace octet::ptxsim::matrix {
namespace {

// Address of element (row, k) of `bytes` bytes.
uint32_t element(const SharedLayout& layout, Major major, int row, int k, int bytes) {
  const int line = major == Major::kK ? row : k, depth = (major == Major::kK ? k : row) * bytes;
  return chunk_address(layout, major, line, depth / 16) + static_cast<uint32_t>(depth % 16);
}

// The ISA's examples of canonical layouts (9.7.16.3.3): "exact layout", in elements, before the swizzle.
TEST(SharedLayout, ExamplesOfTheIsa) {
  const auto strides = [](uint32_t leading, uint32_t stride, Swizzle swizzle) {
    return SharedLayout{swizzle, 0x4000, leading, stride};
  };
  const auto at = [](Swizzle swizzle, uint32_t bytes) { return swizzled(swizzle, 0x4000 + bytes); };
  for (uint32_t row = 0; row < 16; ++row) {
    for (uint32_t k = 0; k < 16; ++k) {  // tf32, K-major: ((8,2),(4,4)):((4,32),(1,64)) and
                                         // ((8,2),(4,4)):((8,64),(1,4))
      const int r = static_cast<int>(row), kk = static_cast<int>(k);
      EXPECT_EQ(element(strides(64 * 4, 32 * 4, Swizzle::kNone), Major::kK, r, kk, 4),
                at(Swizzle::kNone, 4 * (row % 8 * 4 + row / 8 * 32 + k % 4 + k / 4 * 64)));
      if (k < 8) {
        EXPECT_EQ(element(strides(16, 64 * 4, Swizzle::k32), Major::kK, r, kk, 4),
                  at(Swizzle::k32, 4 * (row % 8 * 8 + row / 8 * 64 + k % 4 + k / 4 * 4)));
      }
      // bf16, MN-major: ((8,1,2),(8,2)):((1,8,64),(8,128))
      EXPECT_EQ(element(strides(128 * 2, 64 * 2, Swizzle::kNone), Major::kMn, r, kk, 2),
                at(Swizzle::kNone, 2 * (row % 8 + row / 8 * 64 + k % 8 * 8 + k / 8 * 128)));
    }
  }
  for (uint32_t row = 0; row < 64; ++row) {
    for (uint32_t k = 0; k < 16; ++k) {
      const int r = static_cast<int>(row), kk = static_cast<int>(k);
      if (row < 32) {  // ((8,2,2),(8,2)):((1,8,128),(16,256))
        EXPECT_EQ(element(strides(128 * 2, 256 * 2, Swizzle::k32), Major::kMn, r, kk, 2),
                  at(Swizzle::k32,
                     2 * (row % 8 + row / 8 % 2 * 8 + row / 16 * 128 + k % 8 * 16 + k / 8 * 256)));
      }
      // ((8,4,2),(8,2)):((1,8,256),(32,512))
      EXPECT_EQ(element(strides(256 * 2, 512 * 2, Swizzle::k64), Major::kMn, r, kk, 2),
                at(Swizzle::k64,
                   2 * (row % 8 + row / 8 % 4 * 8 + row / 32 * 256 + k % 8 * 32 + k / 8 * 512)));
    }
  }
}

// A tile of 128-byte rows: what tile/ puts there by the same swizzle. Formulas from the kernels' own layouts.
TEST(SharedLayout, TileOf128ByteRows) {
  const auto tile = decode_tcgen05_descriptor(0x4000404000010000U | 0x8000 >> 4);
  ASSERT_TRUE(tile.ok()) << tile.status().why;
  EXPECT_EQ(tile->swizzle, Swizzle::k128);
  EXPECT_EQ(tile->start_bytes, 0x8000U);
  EXPECT_EQ(tile->leading_bytes, 16U);
  EXPECT_EQ(tile->stride_bytes, 1024U);
  for (int row = 0; row < 128; ++row) {
    for (int k = 0; k < 128; ++k)
      EXPECT_EQ(element(*tile, Major::kK, row, k, 1),
                0x8000 + row * 128 + ((k / 16 ^ row % 8) * 16) + k % 16);
    for (int k = 0; k < 64; ++k)
      EXPECT_EQ(element(*tile, Major::kK, row, k, 2),
                0x8000 + row * 128 + ((k / 8 ^ row % 8) * 16) + k % 8 * 2);
  }
  // The second step of 32 bytes along K: 2 more in the start field.
  const auto step = decode_tcgen05_descriptor((0x4000404000010000U | 0x8000 >> 4) + 2);
  ASSERT_TRUE(step.ok());
  for (int row = 0; row < 128; ++row)
    EXPECT_EQ(chunk_address(*step, Major::kK, row, 1), chunk_address(*tile, Major::kK, row, 3));
}

TEST(SharedLayout, WgmmaWithoutSwizzle) {
  // b [8 columns, 32 k] e4m3: two core matrices, 128 bytes apart along k (src/sm90/ptx/wgmma.cuh).
  const auto b =
      decode_wgmma_descriptor(uint64_t{128 >> 4} << 32 | uint64_t{0x300 >> 4} << 16 | 0x1000 >> 4);
  ASSERT_TRUE(b.ok()) << b.status().why;
  for (int n = 0; n < 8; ++n) {
    for (int k = 0; k < 32; ++k)
      EXPECT_EQ(element(*b, Major::kK, n, k, 1),
                static_cast<uint32_t>(0x1000 + n * 16 + k / 16 * 0x300 + k % 16));
  }
}

TEST(SharedLayout, SwizzleCodes) {
  const auto sm90 = [](uint64_t code) { return decode_wgmma_descriptor(code << 62)->swizzle; };
  EXPECT_EQ(sm90(0), Swizzle::kNone);
  EXPECT_EQ(sm90(1), Swizzle::k128);
  EXPECT_EQ(sm90(2), Swizzle::k64);
  EXPECT_EQ(sm90(3), Swizzle::k32);
  const auto sm100 = [](uint64_t code) {
    return decode_tcgen05_descriptor(code << 61 | uint64_t{1} << 46);
  };
  EXPECT_EQ(sm100(0)->swizzle, Swizzle::kNone);
  EXPECT_EQ(sm100(1)->swizzle, Swizzle::k128Atom32);
  EXPECT_EQ(sm100(2)->swizzle, Swizzle::k128);
  EXPECT_EQ(sm100(4)->swizzle, Swizzle::k64);
  EXPECT_EQ(sm100(6)->swizzle, Swizzle::k32);
  for (const uint64_t code : {3, 5, 7}) {
    EXPECT_EQ(sm100(code).status().why, "matrix descriptor 0x" +
                                            std::string(code == 3   ? "6000"
                                                        : code == 5 ? "a000"
                                                                    : "e000") +
                                            "400000000000: no swizzle has the code " +
                                            std::to_string(code));
  }
}

TEST(SharedLayout, ReservedBits) {
  for (const int bit : {14, 15, 30, 31, 46, 47, 48, 49, 50, 51, 52, 57, 61})
    EXPECT_FALSE(decode_wgmma_descriptor(uint64_t{1} << bit).ok()) << bit;
  const uint64_t right = uint64_t{1} << 46;
  EXPECT_TRUE(decode_tcgen05_descriptor(right).ok());
  for (const int bit : {14, 15, 30, 31, 46, 47, 48, 49, 50, 51, 52, 53, 60})
    EXPECT_FALSE(decode_tcgen05_descriptor(right ^ uint64_t{1} << bit).ok()) << bit;
  EXPECT_EQ(decode_tcgen05_descriptor(0).status().why,
            "matrix descriptor 0x0000000000000000: bits 46-48 are 0, want 1");
  EXPECT_EQ(decode_wgmma_descriptor(uint64_t{5} << 49).status().why,
            "matrix descriptor 0x000a000000000000: base offset 5, 0 alone is modelled");
}

TEST(SharedLayout, AtomsOf32BytesAreKMajor) {
  const SharedLayout layout = {Swizzle::k128Atom32, 0, 16, 1024};
  EXPECT_TRUE(check_major(layout, Major::kK).ok());
  EXPECT_EQ(check_major(layout, Major::kMn).code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace octet::ptxsim::matrix
