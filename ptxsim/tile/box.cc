// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/tile/box.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace octet::ptxsim::tile {

namespace {

// To the nearest of 10 bits of fraction, ties to even; NaN is 0x7FFFE000.
uint32_t tf32_of(uint32_t bits) {
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return 0x7FFFE000;
  if ((bits & 0x7FFFFFFF) == 0x7F800000) return bits;
  return (bits + 0xFFF + (bits >> 13 & 1)) & ~0x1FFFU;
}

}  // namespace

Box::Box(const TensorMap& map, const Coordinates& at, uint32_t shared_address)
    : map_(map), at_(at), shared_address_(shared_address), counts_{} {
  const auto bits = static_cast<uint32_t>(tile_type_bits(map.type));
  data_bytes_ = map.type == TileType::k16u4Align16b ? 8 : kChunkBytes;
  chunks_a_row_ = map.box[0] * bits / 8 / data_bytes_;
  num_rows_ = 1;
  row_pitch_ =
      std::max(chunks_a_row_ * kChunkBytes,
               map.swizzle == matrix::Swizzle::kNone ? 0 : matrix::swizzle_span_bytes(map.swizzle));
  for (int i = 1; i < map.rank; ++i) {
    counts_[i] = (map.box[i] + map.steps[i] - 1) / map.steps[i];
    num_rows_ *= counts_[i];
  }
}

Result<Box> Box::make(const TensorMap& map, const Coordinates& at, uint32_t shared_address,
                      Direction direction) {
  if (shared_address % 128 != 0)
    return invalid_argument(fmt::format(
        "shared address 0x{:x} of a tensor copy, want a multiple of 128", shared_address));
  if (map.type == TileType::k16u4Align16b) {
    if (direction == Direction::kStore)
      return invalid_argument("a tensor store of 16u4_align16b, which can be loaded alone");
    if (at[0] % 128 != 0)
      return invalid_argument(fmt::format(
          "coordinate {} of dimension 0, want a multiple of 128 of 16u4_align16b", at[0]));
  }
  for (int i = 0; direction == Direction::kStore && i < map.rank; ++i) {
    if (at[i] < 0)
      return invalid_argument(fmt::format(
          "coordinate {} of dimension {} of a tensor store, want none before the tensor", at[i],
          i));
  }
  if (map.type == TileType::k16u4Align8b && at[0] % 2 != 0)
    return invalid_argument(
        fmt::format("coordinate {} of dimension 0, want a multiple of 2 of 16u4_align8b", at[0]));
  const int bits = tile_type_bits(map.type);
  if (bits >= 8 && int64_t{at[0]} * bits % (8 * int64_t{kChunkBytes}) != 0)
    return invalid_argument(
        fmt::format("coordinate {} of dimension 0 of {}, want a multiple of 16 bytes", at[0],
                    tile_type_name(map.type)));
  return Box(map, at, shared_address);
}

void Box::finish_load(const Chunk& chunk, std::span<uint8_t, kChunkBytes> bytes) const {
  constexpr uint8_t kNanFill[] = {0xF7, 0x7F};
  const bool is_tf32 = map_.type == TileType::kTfloat32 || map_.type == TileType::kTfloat32Ftz;
  for (uint32_t i = chunk.first; is_tf32 && i + 4 <= chunk.last; i += 4) {
    uint32_t bits;
    std::memcpy(&bits, &bytes[i], 4);
    bits = tf32_of(bits);
    std::memcpy(&bytes[i], &bits, 4);
  }
  for (uint32_t i = 0; i < kChunkBytes; ++i) {
    if (i < chunk.first || i >= chunk.last) bytes[i] = map_.fills_nan ? kNanFill[i % 2] : 0;
  }
}

Chunk Box::chunk(uint32_t index) const {
  Chunk chunk;
  chunk.shared_address =
      matrix::swizzled(map_.swizzle, shared_address_ + index / chunks_a_row_ * row_pitch_ +
                                         index % chunks_a_row_ * kChunkBytes);
  chunk.data = data_bytes_;
  // The row's coordinates, and whether they lie in the tensor.
  uint32_t row = index / chunks_a_row_;
  bool is_within = true;
  uint64_t address =
      map_.base;  // wraps where the box is far from the tensor, and is not looked at then
  for (int i = 1; i < map_.rank; ++i) {
    const int64_t coordinate = int64_t{at_[i]} + int64_t{row % counts_[i]} * map_.steps[i];
    row /= counts_[i];
    is_within &= coordinate >= 0 && coordinate < static_cast<int64_t>(map_.dims[i]);
    address += static_cast<uint64_t>(coordinate) * map_.strides[i];
  }
  // Dimension 0 in bits, since two elements of 4 bits share a byte.
  const auto bits = static_cast<int64_t>(tile_type_bits(map_.type));
  const int64_t begin = (int64_t{at_[0]} * bits) / 8 + int64_t{index % chunks_a_row_} * data_bytes_;
  const int64_t end = static_cast<int64_t>(map_.dims[0]) * bits / 8;
  chunk.global_address = address + static_cast<uint64_t>(begin);
  if (is_within) {
    const auto clamp = [&](int64_t byte) {
      return static_cast<uint32_t>(std::clamp<int64_t>(byte, 0, data_bytes_));
    };
    chunk.first = clamp(-begin);
    chunk.last = std::max(chunk.first, clamp(end - begin));
  }
  return chunk;
}

}  // namespace octet::ptxsim::tile
