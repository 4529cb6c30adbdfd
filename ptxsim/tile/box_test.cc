// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/tile/box.h"

#include <array>
#include <gtest/gtest.h>
#include <limits>
#include <span>
#include <vector>

namespace octet::ptxsim::tile {
namespace {

TensorMap map_of(const TensorMapArgs& args) {
  const auto bytes = encode(args);
  EXPECT_TRUE(bytes.ok()) << bytes.status().why;
  return decode(*bytes).value();
}

// Shared memory after a load, from a global memory whose bytes are given by their address; -1: not written, -2: undefined.
std::vector<int> load(const TensorMap& map, const Coordinates& at, uint32_t shared_address,
                      uint8_t (*global)(uint64_t)) {
  const auto box = Box::make(map, at, shared_address, Box::Direction::kLoad);
  EXPECT_TRUE(box.ok()) << box.status().why;
  std::vector<int> shared(1 << 17, -1);
  for (uint32_t i = 0; i < box->num_chunks(); ++i) {
    const Chunk chunk = box->chunk(i);
    std::array<uint8_t, kChunkBytes> bytes{};
    for (uint32_t byte = chunk.first; byte < chunk.last; ++byte)
      bytes[byte] = global(chunk.global_address + byte);
    box->finish_load(chunk, bytes);
    for (uint32_t byte = 0; byte < kChunkBytes; ++byte) {
      int& to = shared[chunk.shared_address + byte];
      EXPECT_EQ(to, -1) << "written twice";
      to = byte >= chunk.data ? -2 : bytes[byte];
    }
  }
  return shared;
}

uint8_t hash(uint64_t address) {
  return static_cast<uint8_t>((address * 0x9E3779B97F4A7C15U) >> 56 | 1);  // never 0
}

TensorMapArgs bytes_2d(int swizzle, uint32_t inner) {
  TensorMapArgs args;
  args.type = static_cast<int>(TileType::kUint8);
  args.rank = 2;
  args.base = 0x10000;
  args.dims = {1000, 50};
  args.strides = {1008};
  args.box = {inner, 24};
  args.swizzle = swizzle;
  return args;
}

// Element by element from the definition: the byte of row r, column c at r * inner + c, its address's bits exclusive-ored by the table of
// 5.5.7 (bits 4-6 by bits 7-9 and so on).
TEST(Box, EverySwizzleByItsDefinition) {
  struct Case {
    int swizzle;
    uint32_t inner, mask, shift;
  };
  for (const Case& c : {Case{0, 64, 0, 0},
                        {1, 32, 0x10, 3},
                        {2, 64, 0x30, 3},
                        {3, 128, 0x70, 3},
                        {4, 128, 0x60, 2},
                        {6, 128, 0x40, 1}}) {
    const TensorMap map = map_of(bytes_2d(c.swizzle, c.inner));
    for (const uint32_t to : {0x0U, 0x400U, 0x480U}) {
      const std::vector<int> shared = load(map, {16, 3}, to, hash);
      for (uint32_t row = 0; row < 24; ++row) {
        for (uint32_t column = 0; column < c.inner; ++column) {
          const uint32_t linear = to + row * c.inner + column;
          const uint32_t address = linear ^ (linear >> c.shift & c.mask);
          EXPECT_EQ(shared[address], hash(0x10000 + (3 + row) * 1008 + 16 + column))
              << c.swizzle << " " << row << " " << column;
        }
      }
    }
  }
}

TEST(Box, BeyondTheTensorIsFilled) {
  const TensorMap map = map_of(bytes_2d(0, 64));
  for (const Coordinates at : {Coordinates{-16, -4}, {976, 40}, {1008, 0}, {-64, 0}, {0, 50}}) {
    const std::vector<int> shared = load(map, at, 0, hash);
    for (int row = 0; row < 24; ++row) {
      for (int column = 0; column < 64; ++column) {
        const int x = at[0] + column, y = at[1] + row;
        const bool is_within = x >= 0 && x < 1000 && y >= 0 && y < 50;
        const int want = is_within ? hash(0x10000 + static_cast<uint64_t>(y * 1008 + x)) : 0;
        EXPECT_EQ(shared[static_cast<size_t>(row * 64 + column)], want) << x << " " << y;
      }
    }
  }
}

TEST(Box, FarFromTheTensorAllIsFill) {
  TensorMapArgs args = bytes_2d(0, 64);
  args.strides = {(uint64_t{1} << 40) - 16};
  const TensorMap map = map_of(args);
  constexpr int32_t kLeast = std::numeric_limits<int32_t>::min(),
                    kMost = std::numeric_limits<int32_t>::max() - 15;
  for (const Coordinates at :
       {Coordinates{kLeast, kLeast}, {kMost, kMost}, {0, kMost}, {kMost, 0}}) {
    const auto box = Box::make(map, at, 0, Box::Direction::kLoad);
    ASSERT_TRUE(box.ok());
    for (uint32_t i = 0; i < box->num_chunks(); ++i)
      EXPECT_EQ(box->chunk(i).first, box->chunk(i).last);
  }
}

TEST(Box, NanFill) {
  TensorMapArgs args = bytes_2d(0, 64);
  args.type = static_cast<int>(TileType::kBfloat16);
  args.fill = 1;
  const std::vector<int> shared = load(map_of(args), {968, 49}, 0, hash);
  EXPECT_EQ(shared[62], hash(0x10000 + 49 * 1008 + 999 * 2));
  EXPECT_EQ(shared[64], 0xF7);  // element 1000 of row 49
  EXPECT_EQ(shared[65], 0x7F);
  EXPECT_EQ(shared[128], 0xF7);  // row 50
}

TEST(Box, RowsBelowTheSpanKeepItsPitch) {
  const TensorMap map = map_of(bytes_2d(3, 32));
  const std::vector<int> shared = load(map, {16, 3}, 0x400, hash);
  for (uint32_t row = 0; row < 24; ++row) {
    for (uint32_t chunk = 0; chunk < 8; ++chunk) {
      const uint32_t address = 0x400 + row * 128 + (chunk ^ row % 8) * 16;
      const int want = chunk < 2 ? hash(0x10000 + (3 + row) * 1008 + 16 + chunk * 16) : -1;
      EXPECT_EQ(shared[address], want) << row << " " << chunk;
    }
  }
}

TEST(Box, Tfloat32IsRounded) {
  TensorMapArgs args = bytes_2d(0, 64);
  args.type = static_cast<int>(TileType::kTfloat32);
  args.box = {4, 1};
  const auto box = Box::make(map_of(args), {}, 0, Box::Direction::kLoad);
  ASSERT_TRUE(box.ok());
  std::array<uint32_t, 4> words = {0x3F801000, 0x3F803000, 0xBF801001, 0x7F800001};
  box->finish_load(box->chunk(0),
                   std::span<uint8_t, 16>(reinterpret_cast<uint8_t*>(words.data()), 16));
  EXPECT_EQ(words, (std::array<uint32_t, 4>{0x3F800000, 0x3F804000, 0xBF802000, 0x7FFFE000}));
}

TEST(Box, Fp4IsUnpacked) {
  TensorMapArgs args;
  args.type = static_cast<int>(TileType::k16u4Align16b);
  args.rank = 2;
  args.base = 0x10000;
  args.dims = {640, 20};
  args.strides = {320};
  args.box = {128, 16};
  args.swizzle = 3;
  const TensorMap map = map_of(args);
  const auto box = Box::make(map, {128, 8}, 0x400, Box::Direction::kLoad);
  ASSERT_TRUE(box.ok());
  EXPECT_EQ(box->num_chunks(), 16U * 8);
  EXPECT_EQ(box->transaction_bytes(), 16U * 64);
  const std::vector<int> shared = load(map, {128, 8}, 0x400, hash);
  for (uint32_t row = 0; row < 16; ++row) {
    for (uint32_t k = 0; k < 128; k += 2) {
      const uint32_t byte = 0x400 + row * 128 + (k / 16 ^ row % 8) * 16 + k % 16 / 2;
      const int want = row + 8 < 20 ? hash(0x10000 + (8 + row) * 320 + (128 + k) / 2) : 0;
      EXPECT_EQ(shared[byte], want) << row << " " << k;
      EXPECT_EQ(shared[byte + 8], -2) << "the gap";
    }
  }
  EXPECT_EQ(Box::make(map, {64, 0}, 0, Box::Direction::kLoad).status().why,
            "coordinate 64 of dimension 0, want a multiple of 128 of 16u4_align16b");
  EXPECT_FALSE(Box::make(map, {0, 0}, 0, Box::Direction::kStore).ok());
}

TEST(Box, OneToFiveDimensionsWithSteps) {
  for (int rank = 1; rank <= 5; ++rank) {
    TensorMapArgs args;
    args.type = static_cast<int>(TileType::kFloat32);
    args.rank = rank;
    args.base = 0x20000;
    args.dims = {30, 7, 6, 5, 4};
    args.strides = {128, 1024, 8192, 65536};
    args.box = {8, 3, 4, 2, 2};
    args.steps = {1, 1, 2, 1, 2};
    const std::array<uint32_t, 5> counts = {8, 3, 2, 2, 1};
    const Coordinates at = {4, 1, -1, 2, 3};
    const TensorMap map = map_of(args);
    const std::vector<int> shared = load(map, at, 0x80, hash);
    uint32_t total = 1;
    for (int i = 0; i < rank; ++i) total *= counts[static_cast<size_t>(i)];
    for (uint32_t element = 0; element < total; ++element) {
      uint32_t rest = element;
      int64_t address = 0x20000;
      bool is_within = true;
      for (size_t i = 0; i < static_cast<size_t>(rank); ++i) {
        const int64_t x = at[i] + static_cast<int64_t>(rest % counts[i] * args.steps[i]);
        rest /= counts[i];
        is_within &= x >= 0 && x < static_cast<int64_t>(args.dims[i]);
        address += x * (i == 0 ? 4 : static_cast<int64_t>(args.strides[i - 1]));
      }
      EXPECT_EQ(shared[0x80 + element * 4], is_within ? hash(static_cast<uint64_t>(address)) : 0)
          << rank << " " << element;
    }
    EXPECT_EQ(shared[0x80 + total * 4], -1);
    EXPECT_EQ(Box::make(map, at, 0x80, Box::Direction::kLoad)->transaction_bytes(), total * 4);
  }
}

TEST(Box, Refusals) {
  EXPECT_EQ(Box::make(map_of(bytes_2d(0, 64)), {}, 64, Box::Direction::kLoad).status().why,
            "shared address 0x40 of a tensor copy, want a multiple of 128");
  EXPECT_EQ(Box::make(map_of(bytes_2d(0, 64)), {8, 0}, 0, Box::Direction::kLoad).status().why,
            "coordinate 8 of dimension 0 of uint8, want a multiple of 16 bytes");
  EXPECT_EQ(Box::make(map_of(bytes_2d(0, 64)), {0, -1}, 0, Box::Direction::kStore).status().why,
            "coordinate -1 of dimension 1 of a tensor store, want none before the tensor");
  TensorMapArgs packed = bytes_2d(0, 64);
  packed.type = static_cast<int>(TileType::k16u4Align8b);
  EXPECT_TRUE(Box::make(map_of(packed), {2, 0}, 0, Box::Direction::kLoad).ok());
  EXPECT_FALSE(Box::make(map_of(packed), {1, 0}, 0, Box::Direction::kLoad).ok());
}

}  // namespace
}  // namespace octet::ptxsim::tile
