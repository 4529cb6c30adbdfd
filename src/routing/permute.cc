// SPDX-License-Identifier: Apache-2.0
#include "routing/permute.h"

#include <algorithm>
#include <utility>

#include "routing/record.h"

namespace octet::routing {
namespace {

// Where the run of slots that share the id of slots[begin] ends.
int64_t run_end(const SortArgs& a, const int32_t* slots, int64_t begin, int64_t count) {
  int64_t end = begin + 1;
  while (end < count && a.topk_ids[slots[end]] == a.topk_ids[slots[begin]]) ++end;
  return end;
}

bool is_local(const SortArgs& a, int64_t id) {
  return id >= a.local_offset && id - a.local_offset < a.local_experts;
}

// By counting; `next` has a word an expert.
int64_t count_local_slots(const SortArgs& a, int32_t* next, int32_t* slots) {
  const int64_t all = a.tokens * a.top_k;
  std::fill_n(next, a.local_experts, 0);
  for (int64_t s = 0; s < all; ++s) {
    if (is_local(a, a.topk_ids[s])) ++next[a.topk_ids[s] - a.local_offset];
  }
  int32_t count = 0;
  for (int64_t e = 0; e < a.local_experts; ++e) count += std::exchange(next[e], count);
  for (int64_t s = 0; s < all; ++s) {
    if (is_local(a, a.topk_ids[s]))
      slots[next[a.topk_ids[s] - a.local_offset]++] = static_cast<int32_t>(s);
  }
  return count;
}

// The slots with a local id, by id and then by slot, in slots[0] ...; returns how many. tile_to_expert is overwritten: it has
// a word an expert where there are as many slots as experts. For fewer slots comparing is quicker than going over experts.
int64_t sort_local_slots(const SortArgs& a, int32_t* slots) {
  if (a.tokens * a.top_k >= a.local_experts) return count_local_slots(a, a.tile_to_expert, slots);
  int64_t count = 0;
  for (int64_t s = 0; s < a.tokens * a.top_k; ++s) {
    if (is_local(a, a.topk_ids[s])) slots[count++] = static_cast<int32_t>(s);
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
  std::fill_n(a.tile_to_mn_limit, most_tiles, 0);
  std::fill_n(a.expanded_to_permuted, slots, -1);
  std::fill_n(rows, most_tiles * a.tile, -1);
  const int64_t count = sort_local_slots(a, rows);
  std::fill_n(a.tile_to_expert, most_tiles, 0);
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

void permute(const PermuteArgs& a, Executor& executor) {
  const int64_t tiles = ceil_div(a.route_slots, a.tile);  // the last may be cut short
  parallel_for(executor, tiles, [&](int64_t tile, int) {
    const int64_t first = tile * a.tile;
    const int64_t end = std::min(first + a.tile, a.route_slots);
    const int64_t limit = tile < a.num_tiles ? int64_t{a.tile_to_mn_limit[tile]} : first;
    for (int64_t row = first; row < limit; ++row) {
      const int64_t token = a.permuted_to_expanded[row] / a.top_k;
      std::copy_n(a.x + token * a.hidden, a.hidden, a.permuted_x + row * a.hidden);
    }
    std::fill(a.permuted_x + limit * a.hidden, a.permuted_x + end * a.hidden, Bf16{0});
  });
}

}  // namespace octet::routing
