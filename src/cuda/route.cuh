// SPDX-License-Identifier: Apache-2.0
// The routing record by one block of kRouteThreads threads, an expert each: semantics.md section 5. Each thread looks through the ids for
// its own, in order: to count its rows, and, once all experts' first tiles are known, to hand them out. So there are no
// atomics and one possible result.
#pragma once

#include <cstdint>

#include "core/op_args.h"
#include "cuda/warp.cuh"
#include "routing/record.h"

namespace octet::cuda {

constexpr int kRouteThreads = 512;
static_assert(kRouteThreads >= routing::kRouteMaxExperts);

struct RouteShared {
  static constexpr int kIds = 64;
  alignas(16) int32_t ids[kIds];  // a piece of them; -1: outside [0, E), or beyond the last
  int32_t warp_tiles[kRouteThreads / kWarp];
};

namespace routes {

// Which of ids first ... first + count - 1, at most 64, are this thread's. All threads come here.
__device__ __forceinline__ uint64_t own_ids(const RouteArgs& a, RouteShared& shared, int32_t first,
                                            int32_t count) {
  const auto own = static_cast<int32_t>(threadIdx.x);
  __syncthreads();
  if (own < RouteShared::kIds) {
    const int64_t id = own < count ? a.topk_ids[first + own] : -1;
    const bool is_local = id >= a.first_expert && id - a.first_expert < a.experts;
    shared.ids[own] = is_local ? static_cast<int32_t>(id - a.first_expert) : -1;
  }
  __syncthreads();
  uint32_t found[2] = {0, 0};
#pragma unroll
  for (int32_t i = 0; i < RouteShared::kIds; i += 4) {
    const int4 ids = reinterpret_cast<const int4*>(shared.ids)[i / 4];
    const uint32_t four = (ids.x == own ? 1U : 0U) | (ids.y == own ? 2U : 0U) |
                          (ids.z == own ? 4U : 0U) | (ids.w == own ? 8U : 0U);
    found[i / 32] |= four << (i % 32);
  }
  return uint64_t{found[1]} << 32 | found[0];
}

// fn(slot) for each slot of this thread's expert, in order. `last`: what own_ids() gave for the last piece, once it was asked; one
// piece is all of a decode step.
template <class Fn>
__device__ __forceinline__ void for_own_slots(const RouteArgs& a, RouteShared& shared, const Fn& fn,
                                              uint64_t& last, bool is_known) {
  const auto slots = static_cast<int32_t>(a.tokens * a.top_k);
  const bool is_one = slots <= RouteShared::kIds;
  for (int32_t first = 0; first < slots; first += RouteShared::kIds) {
    if (!is_one || !is_known)
      last = own_ids(a, shared, first, min(RouteShared::kIds, slots - first));
    for (uint64_t left = last; left != 0; left &= left - 1)
      fn(first + __ffsll(static_cast<long long>(left)) - 1);
  }
}

// The sum of `count` over all threads before this one, and of all.
struct Tiles {
  int32_t before, all;
};
__device__ __forceinline__ Tiles sum_before(int32_t count, RouteShared& shared) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp,
            warp = static_cast<int>(threadIdx.x) / kWarp;
  int32_t sum = count;
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const int32_t other = __shfl_up_sync(kWholeWarp, sum, step);
    if (lane >= step) sum += other;
  }
  if (lane == kWarp - 1) shared.warp_tiles[warp] = sum;
  __syncthreads();
  Tiles tiles{sum - count, 0};
#pragma unroll
  for (int w = 0; w < kRouteThreads / kWarp; ++w) {
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
  uint64_t own_ids = 0;
  int32_t rows = 0, last = -1;
  routes::for_own_slots(
      a, shared,
      [&](int32_t slot) {
        rows += slot / top_k != last ? 1 : 0;
        last = slot / top_k;
      },
      own_ids, false);
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
  routes::for_own_slots(
      a, shared,
      [&](int32_t slot) {
        const int32_t token = slot / top_k;
        if (token != last) row_token[++row] = token;
        last = token;
        a.permuted[slot] = row;
      },
      own_ids, true);
}

}  // namespace octet::cuda
