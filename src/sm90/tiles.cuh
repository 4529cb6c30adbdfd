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

// Fills tiles[0 ... most_tiles - 1] from a record in shared memory by `threads` threads, `thread` being this one; the caller synchronises.
__device__ __forceinline__ void read_tiles(Tile* tiles, const int32_t* record, int most_tiles,
                                           int thread, int threads) {
  const routing::RecordView view(record, most_tiles);
  for (int i = thread / 8; i < most_tiles; i += threads / 8) {  // eight lanes a tile
    const int row = i * 8 + thread % 8;
    uint32_t tokens = row < view.limit[i] ? 1U << view.token[row] : 0U;
    const uint32_t lanes = 0xFFU << (thread % cuda::kWarp / 8 * 8);
#pragma unroll
    for (int step = 1; step < 8; step *= 2) tokens |= __shfl_xor_sync(lanes, tokens, step);
    if (thread % 8 == 0) tiles[i] = {view.expert[i], tokens};
  }
}

}  // namespace octet::sm90
