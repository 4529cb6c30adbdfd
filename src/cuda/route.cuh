// SPDX-License-Identifier: Apache-2.0
// The routing record by one block of kRouteThreads threads, an expert each: semantics.md section 5. Each thread looks through the ids for
// its own, in order, twice: to count its rows, and, once all experts' first tiles are known, to hand them out. So there are no
// atomics and one possible result.
#pragma once

#include <cstdint>

#include "core/op_args.h"
#include "routing/record.h"

namespace octet::cuda {

constexpr int kRouteThreads = 512;
static_assert(kRouteThreads >= routing::kRouteMaxExperts);

struct RouteShared {
  static constexpr int kIds = 1024;
  alignas(16) int32_t ids[kIds];  // a piece of them; -1: outside [0, E), or beyond the last
  int32_t warp_tiles[kRouteThreads / 32];
};

namespace routes {

// fn(slot) for each slot of this thread's expert, in order. All threads come here.
template <class Fn>
__device__ __forceinline__ void for_own_slots(const RouteArgs& a, RouteShared& shared,
                                              const Fn& fn) {
  const auto slots = static_cast<int32_t>(a.tokens * a.top_k);
  const auto own = static_cast<int32_t>(threadIdx.x);
  for (int32_t first = 0; first < slots; first += RouteShared::kIds) {
    const int32_t count = min(RouteShared::kIds, slots - first);
    __syncthreads();
    for (int32_t i = own; i < (count + 7) / 8 * 8; i += kRouteThreads) {
      const int64_t id = i < count ? a.topk_ids[first + i] : -1;
      shared.ids[i] = id >= 0 && id < a.experts ? static_cast<int32_t>(id) : -1;
    }
    __syncthreads();
    const auto* const fours = reinterpret_cast<const int4*>(shared.ids);
#pragma unroll 1
    for (int32_t i = 0; i < count; i += 8) {
      const int4 low = fours[i / 4], high = fours[i / 4 + 1];
      const int32_t ids[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
      uint32_t own_ones = 0;
#pragma unroll
      for (int32_t j = 0; j < 8; ++j) own_ones |= ids[j] == own ? 1U << j : 0U;
      for (; own_ones != 0; own_ones &= own_ones - 1)
        fn(first + i + __ffs(static_cast<int>(own_ones)) - 1);
    }
  }
}

// The sum of `count` over all threads before this one, and of all.
struct Tiles {
  int32_t before, all;
};
__device__ __forceinline__ Tiles sum_before(int32_t count, RouteShared& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  int32_t sum = count;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int32_t other = __shfl_up_sync(0xFFFFFFFFU, sum, step);
    if (lane >= step) sum += other;
  }
  if (lane == 31) shared.warp_tiles[warp] = sum;
  __syncthreads();
  Tiles tiles{sum - count, 0};
#pragma unroll
  for (int w = 0; w < kRouteThreads / 32; ++w) {
    if (w < warp) tiles.before += shared.warp_tiles[w];
    tiles.all += shared.warp_tiles[w];
  }
  return tiles;
}

}  // namespace routes

// Writes every word of record and permuted.
__device__ __forceinline__ void route_block(const RouteArgs& a, RouteShared& shared) {
  const auto own = static_cast<int32_t>(threadIdx.x);
  const auto top_k = static_cast<int32_t>(a.top_k);
  const auto slots = static_cast<int32_t>(a.tokens * a.top_k);
  const auto ctas = static_cast<int32_t>(routing::max_ctas(a.tokens, a.top_k, a.experts));
  const auto words = static_cast<int32_t>(routing::record_words(ctas));
  for (int32_t i = own; i < words; i += kRouteThreads) a.record[i] = 0;
  for (int32_t i = own; i < slots; i += kRouteThreads) a.permuted[i] = -1;

  // An id that occurs twice in a row is one row.
  int32_t rows = 0, last = -1;
  routes::for_own_slots(a, shared, [&](int32_t slot) {
    rows += slot / top_k != last ? 1 : 0;
    last = slot / top_k;
  });
  constexpr auto kTile = static_cast<int32_t>(kTileRows);
  const int32_t own_tiles = (rows + kTile - 1) / kTile;
  const routes::Tiles tiles = routes::sum_before(own_tiles, shared);

  int32_t* const tile_expert = a.record + 4;
  int32_t* const tile_limit = tile_expert + routing::cta_words(ctas);
  int32_t* const row_token = tile_limit + routing::cta_words(ctas);
  const int32_t first_row = tiles.before * kTile;
  for (int32_t t = 0; t < own_tiles; ++t) {
    tile_expert[tiles.before + t] = own;
    tile_limit[tiles.before + t] = min(first_row + (t + 1) * kTile, first_row + rows);
  }
  if (own == 0) {
    a.record[0] = tiles.all * kTile;
    a.record[1] = tiles.all;
  }
  int32_t row = first_row - 1;
  last = -1;
  routes::for_own_slots(a, shared, [&](int32_t slot) {
    const int32_t token = slot / top_k;
    if (token != last) row_token[++row] = token;
    last = token;
    a.permuted[slot] = row;
  });
}

}  // namespace octet::cuda
