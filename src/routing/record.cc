// SPDX-License-Identifier: Apache-2.0
#include "routing/record.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace octet::routing {
namespace {

// The slot of row `token` that holds its id first: `slot` itself unless the id occurs twice in the row.
int64_t first_slot(const RouteArgs& a, int64_t token, int64_t slot) {
  const int64_t row = token * a.top_k;
  int64_t j = 0;
  while (a.topk_ids[row + j] != a.topk_ids[row + slot]) ++j;
  return j;
}

bool is_local(const RouteArgs& a, int64_t id) {
  return id >= a.first_expert && id - a.first_expert < a.experts;
}
size_t expert_of(const RouteArgs& a, int64_t id) {
  return static_cast<size_t>(id - a.first_expert);
}

}  // namespace

// By counting: rows of each expert, then its first tile, then the slots in order.
void route(const RouteArgs& a) {
  assert(a.experts <= kRouteMaxExperts);
  const int64_t ctas = max_ctas(a.tokens, a.top_k, a.experts);
  std::fill_n(a.record, record_words(ctas), 0);
  int32_t* tile_expert = a.record + 4;
  int32_t* tile_limit = tile_expert + cta_words(ctas);
  int32_t* row_token = tile_limit + cta_words(ctas);

  std::array<int64_t, kRouteMaxExperts> next{};  // rows of an expert, then its next free row
  for (int64_t t = 0; t < a.tokens; ++t) {
    for (int64_t j = 0; j < a.top_k; ++j) {
      const int64_t id = a.topk_ids[t * a.top_k + j];
      if (is_local(a, id) && first_slot(a, t, j) == j) ++next[expert_of(a, id)];
    }
  }
  int64_t tile = 0;
  for (int64_t e = 0; e < a.experts; ++e) {
    int64_t& rows = next[static_cast<size_t>(e)];
    const int64_t end = tile * kTileRows + rows;
    rows = tile * kTileRows;
    for (; tile * kTileRows < end; ++tile) {
      tile_expert[tile] = static_cast<int32_t>(e);
      tile_limit[tile] = static_cast<int32_t>(std::min((tile + 1) * kTileRows, end));
    }
  }
  a.record[0] = static_cast<int32_t>(kTileRows * tile);
  a.record[1] = static_cast<int32_t>(tile);

  for (int64_t t = 0; t < a.tokens; ++t) {
    int32_t* permuted = a.permuted + t * a.top_k;
    for (int64_t j = 0; j < a.top_k; ++j) {
      const int64_t id = a.topk_ids[t * a.top_k + j];
      const int64_t first = first_slot(a, t, j);
      permuted[j] = !is_local(a, id) ? -1
                    : first < j      ? permuted[first]
                                     : static_cast<int32_t>(next[expert_of(a, id)]++);
      if (permuted[j] >= 0) row_token[permuted[j]] = static_cast<int32_t>(t);
    }
  }
}

}  // namespace octet::routing
