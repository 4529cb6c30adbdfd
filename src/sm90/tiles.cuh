// SPDX-License-Identifier: Apache-2.0
// The routing record (routing/record.h) as the CTAs of a decode step keep it: of at most 8 rows, a tile is an expert.
#pragma once

#include <cstdint>

#include "cuda/warp.cuh"
#include "routing/record.h"
#include "sm90/experts_plan.h"

namespace octet::sm90 {

struct Tile {
  int32_t expert;
  uint32_t tokens;  // bit t: token t is one of its rows, in ascending order
};
__device__ __forceinline__ int rows_of(const Tile& tile) { return __popc(tile.tokens); }

// Words of the record that every CTA reads: from L2, where they were just written.
__device__ __forceinline__ int record_word(const int32_t* record, int64_t word) {
  return __ldcg(record + word);
}
__device__ __forceinline__ int num_tiles(const int32_t* record) { return record_word(record, 1); }

// Fills tiles[0 ... num_tiles - 1] by `threads` threads, `thread` being this one; the caller synchronises.
__device__ __forceinline__ void read_tiles(Tile* tiles, const int32_t* record, int most_tiles,
                                           int thread, int threads) {
  const int64_t words = routing::cta_words(most_tiles);
  for (int i = thread / 8; i < most_tiles; i += threads / 8) {  // eight lanes a tile
    const int row = i * 8 + thread % 8;
    const int expert = record_word(record, 4 + i);
    const int limit = record_word(record, 4 + words + i);
    const int token = record_word(record, 4 + 2 * words + row);
    uint32_t tokens = row < limit ? 1U << token : 0U;
    const uint32_t lanes = 0xFFU << (thread % cuda::kWarp / 8 * 8);
#pragma unroll
    for (int step = 1; step < 8; step *= 2) tokens |= __shfl_xor_sync(lanes, tokens, step);
    if (thread % 8 == 0) tiles[i] = {expert, tokens};
  }
}

}  // namespace octet::sm90
