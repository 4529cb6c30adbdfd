// SPDX-License-Identifier: Apache-2.0
// What one cp.async.bulk.tensor in tile mode moves: a box of a tensor, 16 bytes of shared memory at a time.
//
//   global  base + sum of coordinate i * stride i; dimension 0 contiguous
//   shared  the box's elements one after the other, dimension 0 innermost, then the swizzle on the address's own bits
//
// Each Chunk is 16 bytes of shared memory. Of its bytes [first, last) come from (go to) global memory, the others of the first `data`
// bytes lie beyond the tensor: a load fills them, a store leaves them. 16u4_align16b has 8 bytes of data in a chunk, behind it a gap that
// a load leaves undefined.
// Bytes that an mbarrier is told: the box's in global memory, beyond the tensor or not, so 16 elements of 16u4_align16b are 8 (no ISA
// text says so; two published libraries count so, docs/ptxsim.md).
// Errors: a shared address that is no multiple of 128; a coordinate of dimension 0 that is no multiple of 128 with 16u4_align16b, whose
// store there is none, or odd with 16u4_align8b. Not modelled: an inner dimension below the swizzle's span (how the rows then lie, the ISA's text does not say).
// Source: PTX ISA 5.5.1.1, 5.5.3, 5.5.7, 9.7.9.27.
#pragma once

#include <array>
#include <cstdint>

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
  uint32_t shared_bytes() const { return num_chunks() * kChunkBytes; }
  uint32_t transaction_bytes() const { return num_chunks() * data_bytes_; }
  Chunk chunk(uint32_t index) const;

  // A byte beyond the tensor; NaN in every format is all ones here: which one the hardware takes, no text says.
  uint8_t fill() const { return map_.fills_nan ? 0xFF : 0; }

 private:
  Box(const TensorMap& map, const Coordinates& at, uint32_t shared_address);
  TensorMap map_;
  Coordinates at_;
  uint32_t shared_address_;
  uint32_t data_bytes_;                     // of a chunk
  uint32_t chunks_a_row_, num_rows_;        // a row: dimension 0
  std::array<uint32_t, kMostRank> counts_;  // elements in each dimension, steps counted
};

}  // namespace octet::ptxsim::tile
