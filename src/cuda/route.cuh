// SPDX-License-Identifier: Apache-2.0
// The routing record by one block of kRouteThreads threads: semantics.md section 5. In a decode step an expert has one tile, so masks of
// experts and of their tokens, set in any order, say where each slot's row is. With more tokens each thread has an expert and looks
// through the ids for its own, in order: to count its rows, and, once all experts' first tiles are known, to hand them out. So
// there is one possible result.
#pragma once

#include <cstdint>

#include "core/op_args.h"
#include "cuda/warp.cuh"
#include "routing/record.h"

namespace octet::cuda {

constexpr int kRouteThreads = 512;
static_assert(kRouteThreads >= routing::kRouteMaxExperts);

constexpr int64_t kFewTokens = kTileRows;  // a decode step

struct RouteShared {
  // Of few tokens: bit t of an expert's mask is token t, bit e % 32 of word e / 32 expert e.
  uint32_t tokens[routing::kRouteMaxExperts];
  alignas(16) uint32_t experts[routing::kRouteMaxExperts / kWarp];
  // Of more.
  static constexpr int kIds = 64;
  alignas(16) int32_t ids[kIds];  // a piece of them; -1: outside [0, E), or beyond the last
  int32_t warp_tiles[kRouteThreads / kWarp];
};

namespace routes {

// The expert of the record that an id is, -1 if none.
__device__ __forceinline__ int32_t local_expert(const RouteArgs& a, int64_t id) {
  const bool is_local = id >= a.first_expert && id - a.first_expert < a.experts;
  return is_local ? static_cast<int32_t>(id - a.first_expert) : -1;
}

// Where a record's tables are, in global memory.
struct RecordTables {
  int32_t *expert, *limit, *token;
  int32_t words;
  __device__ __forceinline__ explicit RecordTables(const RouteArgs& a) {
    const auto ctas =
        routing::max_ctas<int32_t>(static_cast<int32_t>(a.tokens), static_cast<int32_t>(a.top_k),
                                   static_cast<int32_t>(a.experts));
    const auto cta_words = routing::cta_words<int32_t>(ctas);
    expert = a.record + 4;
    limit = expert + cta_words;
    token = limit + cta_words;
    words = routing::record_words<int32_t>(ctas);
  }
};
__device__ __forceinline__ void clear(const RouteArgs& a, const RecordTables& record) {
  const auto slots = static_cast<int32_t>(a.tokens * a.top_k);
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < record.words; i += kRouteThreads)
    a.record[i] = 0;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < slots; i += kRouteThreads)
    a.permuted[i] = -1;
}

// Which of ids first ... first + count - 1, at most 64, are this thread's. All threads come here.
__device__ __forceinline__ uint64_t own_ids(const RouteArgs& a, RouteShared& shared, int32_t first,
                                            int32_t count) {
  const auto own = static_cast<int32_t>(threadIdx.x);
  __syncthreads();
  if (own < RouteShared::kIds) {
    shared.ids[own] = own < count ? local_expert(a, a.topk_ids[first + own]) : -1;
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
// piece is all of a few dozen ids.
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

// ---- few tokens: each thread has at most one slot, and its id

// Before anything else; a __syncthreads() later ids may be marked.
__device__ __forceinline__ void begin_few(const RouteArgs& a, RouteShared& shared) {
  const auto own = static_cast<int32_t>(threadIdx.x);
  routes::clear(a, routes::RecordTables(a));
  static_assert(kRouteThreads >= routing::kRouteMaxExperts);
  shared.tokens[own] = 0;
  if (own < routing::kRouteMaxExperts / kWarp) shared.experts[own] = 0;
}

// This thread's slot j of `token`, if it has one. All threads come here; writes every word of record and permuted that is not 0 or -1.
struct Slot {
  bool is_one;
  int32_t token, j;
  int64_t id;
};
__device__ __forceinline__ void route_few(const RouteArgs& a, RouteShared& shared,
                                          const Slot& slot) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int32_t expert = slot.is_one ? routes::local_expert(a, slot.id) : -1;
  const int32_t word = max(expert, 0) / kWarp;
  const uint32_t bit = 1U << (max(expert, 0) % kWarp), token_bit = 1U << slot.token;
  if (expert >= 0) {
    atomicOr(&shared.tokens[expert], token_bit);
    atomicOr(&shared.experts[word], bit);
  }
  const routes::RecordTables record(a);
  __syncthreads();
  if (__ballot_sync(kWholeWarp, slot.is_one) == 0) return;
  constexpr int kWords = static_cast<int>(routing::kRouteMaxExperts) / kWarp;
  const int32_t own = lane < kWords ? __popc(shared.experts[lane]) : 0;
  int32_t sum = own;  // of words up to the lane's
#pragma unroll
  for (int step = 1; step < kWords; step *= 2) {
    const int32_t other = __shfl_up_sync(kWholeWarp, sum, step);
    if (lane >= step) sum += other;
  }
  const int32_t tiles = __shfl_sync(kWholeWarp, sum, kWords - 1);
  const int32_t before = __shfl_sync(kWholeWarp, sum - own, word);
  if (!slot.is_one) return;
  if (slot.token == 0 && slot.j == 0) {
    a.record[0] = tiles * static_cast<int32_t>(kTileRows);
    a.record[1] = tiles;
  }
  if (expert < 0) return;
  const int32_t tile = before + __popc(shared.experts[word] & (bit - 1));
  const uint32_t tokens = shared.tokens[expert];
  const int32_t place = __popc(tokens & (token_bit - 1));
  const int32_t first = tile * static_cast<int32_t>(kTileRows);
  a.permuted[slot.token * static_cast<int32_t>(a.top_k) + slot.j] = first + place;
  record.token[first + place] = slot.token;
  if (place != 0) return;
  record.expert[tile] = expert;
  record.limit[tile] = first + __popc(tokens);
}

// ---- any number of tokens

// Writes every word of record and permuted.
__device__ __forceinline__ void route_block(const RouteArgs& a, RouteShared& shared) {
  const auto own = static_cast<int32_t>(threadIdx.x);
  const auto top_k = static_cast<int32_t>(a.top_k);
  const routes::RecordTables record(a);
  if (a.tokens <= kFewTokens && a.tokens * a.top_k <= kRouteThreads) {
    const bool has_slot = own < a.tokens * a.top_k;
    const Slot slot{has_slot, has_slot ? own / top_k : 0, has_slot ? own % top_k : 0,
                    has_slot ? a.topk_ids[own] : -1};
    begin_few(a, shared);
    __syncthreads();
    route_few(a, shared, slot);
    return;
  }
  routes::clear(a, record);

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

  const int32_t first_row = tiles.before * kTile;
  for (int32_t t = 0; t < own_tiles; ++t) {
    record.expert[tiles.before + t] = own;
    record.limit[tiles.before + t] = min(first_row + (t + 1) * kTile, first_row + rows);
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
        if (token != last) record.token[++row] = token;
        last = token;
        a.permuted[slot] = row;
      },
      own_ids, true);
}

}  // namespace octet::cuda
