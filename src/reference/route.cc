// SPDX-License-Identifier: Apache-2.0
// route, and front as the three operations that it replaces. semantics.md sections 3 to 5.
#include <algorithm>
#include <vector>

#include "reference/index.h"
#include "reference/reference.h"

namespace octet::reference {
namespace {

// Tokens that chose an expert, ascending, each once however often it did.
std::vector<int64_t> tokens_of(const RouteArgs& args, int64_t expert) {
  std::vector<int64_t> tokens;
  for (int64_t slot = 0; slot < args.tokens * args.top_k; ++slot) {
    const int64_t t = slot / args.top_k;
    const bool listed = !tokens.empty() && tokens.back() == t;
    if (args.topk_ids[slot] == expert && !listed) tokens.push_back(t);
  }
  return tokens;
}

}  // namespace

void route(const RouteArgs& args) {
  const int64_t slots = args.tokens * args.top_k;
  const RecordOffsets at(most_tiles(slots, args.experts, kTileRows));
  std::fill_n(args.permuted, slots, -1);
  std::fill_n(args.record, at.end, 0);
  int64_t tile = 0;
  for (int64_t e = 0; e < args.experts; ++e) {
    const std::vector<int64_t> tokens = tokens_of(args, args.first_expert + e);
    const auto count = static_cast<int64_t>(tokens.size());
    const int64_t first = tile * kTileRows;
    for (int64_t i = 0; i < count; ++i) {
      args.record[at.token + first + i] = static_cast<int32_t>(tokens[i]);
      for (int64_t j = 0; j < args.top_k; ++j) {
        const int64_t slot = tokens[i] * args.top_k + j;
        if (args.topk_ids[slot] == args.first_expert + e)
          args.permuted[slot] = static_cast<int32_t>(first + i);
      }
    }
    for (; tile * kTileRows < first + count; ++tile) {
      args.record[at.expert + tile] = static_cast<int32_t>(e);
      args.record[at.limit + tile] = tile_limit(tile, kTileRows, first, count);
    }
  }
  args.record[0] = static_cast<int32_t>(kTileRows * tile);
  args.record[1] = static_cast<int32_t>(tile);
}

void front(const FrontArgs& args) {
  topk(args.topk);
  mxfp8_quantize(args.quantize);
  const TopkArgs& top = args.topk;
  route({.topk_ids = {top.topk_ids, false},
         .tokens = top.tokens,
         .top_k = top.router.top_k,
         .experts = top.experts,
         .permuted = args.permuted,
         .record = args.record});
}

}  // namespace octet::reference
