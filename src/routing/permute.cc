// SPDX-License-Identifier: Apache-2.0
#include "routing/permute.h"

#include <algorithm>

#include "routing/record.h"

namespace octet::routing {
namespace {

// Where the run of slots that share the id of slots[begin] ends.
int64_t run_end(const SortArgs& a, const int32_t* slots, int64_t begin, int64_t count) {
  int64_t end = begin + 1;
  while (end < count && a.topk_ids[slots[end]] == a.topk_ids[slots[begin]]) ++end;
  return end;
}

// The slots with a local id, by id and then by slot, in slots[0] ...; returns how many.
int64_t sort_local_slots(const SortArgs& a, int32_t* slots) {
  int64_t count = 0;
  for (int64_t s = 0; s < a.tokens * a.top_k; ++s) {
    const int64_t id = a.topk_ids[s];
    if (id >= a.local_offset && id - a.local_offset < a.local_experts)
      slots[count++] = static_cast<int32_t>(s);
  }
  std::sort(slots, slots + count, [&a](int32_t x, int32_t y) {
    const int64_t left = a.topk_ids[x];
    const int64_t right = a.topk_ids[y];
    return left != right ? left < right : x < y;
  });
  return count;
}

}  // namespace

// In place: sorts the slots at the front of permuted_to_expanded, then moves each expert's run back to its first tile,
// the last run first. A run never moves forward, so it overwrites nothing that still has to move. No memory of its own.
void sort(const SortArgs& a) {
  const int64_t slots = a.tokens * a.top_k;
  const int64_t most_tiles = max_tiles(a.tokens, a.top_k, a.local_experts, a.tile);
  int32_t* rows = a.permuted_to_expanded;
  std::fill_n(a.tile_to_expert, most_tiles, 0);
  std::fill_n(a.tile_to_mn_limit, most_tiles, 0);
  std::fill_n(a.expanded_to_permuted, slots, -1);
  std::fill_n(rows, most_tiles * a.tile, -1);

  const int64_t count = sort_local_slots(a, rows);
  int64_t tiles = 0;
  for (int64_t begin = 0, end = 0; begin < count; begin = end) {
    end = run_end(a, rows, begin, count);
    const int64_t expert = a.topk_ids[rows[begin]] - a.local_offset;
    const int64_t limit = tiles * a.tile + (end - begin);
    for (; tiles * a.tile < limit; ++tiles) {
      a.tile_to_expert[tiles] = static_cast<int32_t>(expert);
      a.tile_to_mn_limit[tiles] = static_cast<int32_t>(std::min((tiles + 1) * a.tile, limit));
    }
  }
  a.num_tiles[0] = static_cast<int32_t>(tiles);

  int64_t left = count;  // slots that still stand at the front
  for (int64_t tile = tiles - 1; tile >= 0; --tile) {
    const int64_t first = tile * a.tile;
    const int64_t limit = a.tile_to_mn_limit[tile];
    for (int64_t row = limit - 1; row >= first; --row) {
      const int32_t slot = rows[--left];
      rows[row] = slot;
      a.expanded_to_permuted[slot] = static_cast<int32_t>(row);
    }
    std::fill(rows + limit, rows + first + a.tile, -1);
  }
}

void permute(const PermuteArgs& a) {
  int64_t row = 0;
  for (int64_t tile = 0; tile < a.num_tiles; ++tile) {
    const int64_t end = (tile + 1) * a.tile;
    for (; row < std::min<int64_t>(end, a.tile_to_mn_limit[tile]); ++row) {
      const int64_t token = a.permuted_to_expanded[row] / a.top_k;
      std::copy_n(a.x + token * a.hidden, a.hidden, a.permuted_x + row * a.hidden);
    }
    std::fill(a.permuted_x + row * a.hidden, a.permuted_x + end * a.hidden, Bf16{0});
    row = end;
  }
  std::fill(a.permuted_x + row * a.hidden, a.permuted_x + a.route_slots * a.hidden, Bf16{0});
}

}  // namespace octet::routing
