// SPDX-License-Identifier: Apache-2.0
// What one cp.async.bulk.tensor in tile mode moves: a box of a tensor, 16 bytes of shared memory at a time.
//
//   global  base + sum of coordinate i * stride i; dimension 0 contiguous
//   shared  the box's elements one after the other, dimension 0 innermost, a row at least the swizzle's span from the next, then the swizzle
//           on the address's own bits
//
// Each Chunk is 16 bytes of shared memory. Of its bytes [first, last) come from (go to) global memory, the others of the first `data`
// bytes lie beyond the tensor: a load fills them, a store leaves them. 16u4_align16b has 8 bytes of data in a chunk, behind it a gap that
// a load leaves undefined.
// Bytes that an mbarrier is told: the box's in global memory, beyond the tensor or not, so 16 elements of 16u4_align16b are 8 (no ISA
// text says so; two published libraries count so, docs/ptxsim.md).
// Errors: a shared address that is no multiple of 128; a coordinate of dimension 0 that begins at no multiple of 16 bytes, or with
// 16u4_align16b, whose store there is none, at none of 128 elements, or with 16u4_align8b is odd; a store to before the tensor. An H200 calls
// the first and the last of these coordinates illegal instructions.
// Source: PTX ISA 5.5.1.1, 5.5.3, 5.5.7, 9.7.9.27; rows shorter than the span, the fill and tfloat32's rounding as an H200 has them.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "octet/status.hpp"
#include "ptxsim/tile/tensor_map.h"

namespace octet::ptxsim::tile {

constexpr uint32_t kChunkBytes = 16;

struct Chunk {
  uint32_t shared_address = 0;
  uint64_t global_address = 0;   // of the chunk's first byte, wherever the tensor ends
  uint32_t data = kChunkBytes;   // bytes that have one in global memory
  uint32_t first = 0, last = 0;  // bytes within the tensor
};

using Coordinates = std::array<int32_t, kMostRank>;

class Box {
 public:
  enum class Direction { kLoad, kStore };
  static Result<Box> make(const TensorMap& map, const Coordinates& at, uint32_t shared_address,
                          Direction direction);

  uint32_t num_chunks() const { return chunks_a_row_ * num_rows_; }
  // Whether its chunks are one range of shared memory, which begins at its address.
  bool is_dense() const { return row_pitch_ == chunks_a_row_ * kChunkBytes; }
  uint32_t transaction_bytes() const { return num_chunks() * data_bytes_; }
  Chunk chunk(uint32_t index) const;

  // What a load puts into a chunk: `data` bytes of which [first, last) are the tensor's; the others are filled, by 0 or by 0x7FF7 in every
  // 16 bits. tfloat32 is rounded to 10 bits of fraction.
  void finish_load(const Chunk& chunk, std::span<uint8_t, kChunkBytes> bytes) const;

 private:
  Box(const TensorMap& map, const Coordinates& at, uint32_t shared_address);
  TensorMap map_;
  Coordinates at_;
  uint32_t shared_address_;
  uint32_t data_bytes_;                     // of a chunk
  uint32_t chunks_a_row_, num_rows_;        // a row: dimension 0
  uint32_t row_pitch_;                      // bytes of shared memory from one to the next
  std::array<uint32_t, kMostRank> counts_;  // elements in each dimension, steps counted
};

}  // namespace octet::ptxsim::tile
