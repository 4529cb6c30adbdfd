// SPDX-License-Identifier: Apache-2.0
// moe_sort and moe_permute: slots to rows, each expert padded to whole tiles. semantics.md section 10.
#include <algorithm>

#include "reference/index.h"
#include "reference/reference.h"

namespace octet::reference {

void moe_sort(const SortArgs& args) {
  const int64_t slots = args.tokens * args.top_k;
  const int64_t tiles = most_tiles(slots, args.local_experts, args.tile);
  std::fill_n(args.tile_to_expert, tiles, 0);
  std::fill_n(args.tile_to_mn_limit, tiles, 0);
  std::fill_n(args.expanded_to_permuted, slots, -1);
  std::fill_n(args.permuted_to_expanded, tiles * args.tile, -1);
  int64_t tile = 0;
  for (int64_t e = 0; e < args.local_experts; ++e) {
    const int64_t first = tile * args.tile;
    int64_t count = 0;
    for (int64_t slot = 0; slot < slots; ++slot) {
      if (args.topk_ids[slot] != args.local_offset + e) continue;
      args.expanded_to_permuted[slot] = static_cast<int32_t>(first + count);
      args.permuted_to_expanded[first + count] = static_cast<int32_t>(slot);
      ++count;
    }
    for (; tile * args.tile < first + count; ++tile) {
      args.tile_to_expert[tile] = static_cast<int32_t>(e);
      args.tile_to_mn_limit[tile] = tile_limit(tile, args.tile, first, count);
    }
  }
  *args.num_tiles = static_cast<int32_t>(tile);
}

void moe_permute(const PermuteArgs& args) {
  std::fill_n(args.permuted_x, args.route_slots * args.hidden, Bf16{0});
  for (int64_t tile = 0; tile < args.num_tiles; ++tile) {
    for (int64_t row = tile * args.tile; row < args.tile_to_mn_limit[tile]; ++row) {
      const int64_t token = args.permuted_to_expanded[row] / args.top_k;
      std::copy_n(args.x + token * args.hidden, args.hidden, args.permuted_x + row * args.hidden);
    }
  }
}

}  // namespace octet::reference
