// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/tile/box.h"

#include <algorithm>
#include <fmt/format.h>

namespace octet::ptxsim::tile {

Box::Box(const TensorMap& map, const Coordinates& at, uint32_t shared_address)
    : map_(map), at_(at), shared_address_(shared_address), counts_{} {
  const auto bits = static_cast<uint32_t>(tile_type_bits(map.type));
  data_bytes_ = map.type == TileType::k16u4Align16b ? 8 : kChunkBytes;
  chunks_a_row_ = map.box[0] * bits / 8 / data_bytes_;
  num_rows_ = 1;
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
  if (map.type == TileType::k16u4Align8b && at[0] % 2 != 0)
    return invalid_argument(
        fmt::format("coordinate {} of dimension 0, want a multiple of 2 of 16u4_align8b", at[0]));
  const Box box(map, at, shared_address);
  const uint32_t inner = box.chunks_a_row_ * kChunkBytes;
  if (map.swizzle != matrix::Swizzle::kNone && inner != matrix::swizzle_span_bytes(map.swizzle))
    return unsupported(
        fmt::format("a tensor copy of {} bytes a row in a swizzle of {}: not modelled", inner,
                    matrix::swizzle_span_bytes(map.swizzle)));
  return box;
}

Chunk Box::chunk(uint32_t index) const {
  Chunk chunk;
  chunk.shared_address = matrix::swizzled(map_.swizzle, shared_address_ + index * kChunkBytes);
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
