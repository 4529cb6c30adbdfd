// SPDX-License-Identifier: Apache-2.0
// moe_sort, moe_permute, grouped_moe.
#include <algorithm>
#include <fmt/format.h>

#include "cpu/ops.h"
#include "dispatch/op_input.h"
#include "layouts/grouped.h"
#include "layouts/scale_layout.h"
#include "reference/reference.h"
#include "routing/permute.h"
#include "routing/record.h"

namespace octet::dispatch {
namespace {

// Bounds of settings that size work areas: far above any model, far below what runs a machine out of memory.
constexpr int64_t kMaxSortExperts = int64_t{1} << 16;
constexpr int64_t kMaxSortTile = int64_t{1} << 16;
constexpr int64_t kMaxTopK = int64_t{1} << 20;

Result<int64_t> route_tiles(const TensorView& ids, int64_t experts, int64_t tile) {
  if (ids.dim(1) < 1) return invalid_argument("topk_ids: k 0, want at least 1");
  const int64_t tiles = routing::max_tiles(ids.dim(0), ids.dim(1), experts, tile);
  if (tiles > kMaxSize / tile - 1) {
    return invalid_argument(
        fmt::format("topk_ids: {} tiles of {} rows, want below {} rows", tiles, tile, kMaxSize));
  }
  return tiles;
}

// Whether the used rows of moe_permute's tables stay inside them and inside x.
Status check_permute_tables(const PermuteArgs& a, int64_t num_limits, int64_t tokens) {
  if (a.num_tiles < 0 || a.num_tiles > num_limits || a.num_tiles > a.route_slots) {
    return invalid_argument(
        fmt::format("num_tiles: {}, want 0..{}", a.num_tiles, std::min(num_limits, a.route_slots)));
  }
  for (int64_t tile = 0; tile < a.num_tiles; ++tile) {
    const int64_t first = tile * a.tile;
    const int64_t limit = a.tile_to_mn_limit[tile];
    const int64_t end = std::min(first + a.tile, a.route_slots);
    if (limit < first || limit > end) {
      return invalid_argument(
          fmt::format("tile_to_mn_limit: [{}] is {}, want {}..{}", tile, limit, first, end));
    }
    for (int64_t row = first; row < limit; ++row) {
      const int64_t slot = a.permuted_to_expanded[row];
      if (slot < 0 || slot / a.top_k >= tokens) {
        return invalid_argument(fmt::format("permuted_to_expanded: [{}] is {}, want below {}", row,
                                            slot, tokens * a.top_k));
      }
    }
  }
  return {};
}

}  // namespace

Status op_moe_sort(OpCall& call) {
  OCTET_ASSIGN_OR_RETURN(const TensorView ids,
                         call.need("topk_ids", {Dtype::kI32, Dtype::kI64}, {"T", "k"}));
  OCTET_ASSIGN_OR_RETURN(const int64_t experts, call.integer("experts", {1, kMaxSortExperts}));
  OCTET_ASSIGN_OR_RETURN(const int64_t tile, call.integer("tile", {1, kMaxSortTile}));
  OCTET_ASSIGN_OR_RETURN(const int64_t offset, call.integer("local_offset", {0, experts}, 0));
  OCTET_ASSIGN_OR_RETURN(const int64_t local, call.integer("local_experts", {1, experts}, experts));
  if (offset + local > experts) {
    return invalid_argument(
        fmt::format("local_offset {} + local_experts {}, want at most {}", offset, local, experts));
  }
  OCTET_ASSIGN_OR_RETURN(const int64_t tiles, route_tiles(ids, local, tile));
  const auto out = [&](std::string_view name, const Dims& dims, std::string_view culprit) {
    return call.out<int32_t>(name, Dtype::kI32, dims, culprit);
  };
  SortArgs args{.topk_ids = token_ids(ids),
                .tokens = ids.dim(0),
                .top_k = ids.dim(1),
                .tile = tile,
                .local_offset = offset,
                .local_experts = local,
                .tile_to_expert = nullptr,
                .tile_to_mn_limit = nullptr,
                .expanded_to_permuted = nullptr,
                .permuted_to_expanded = nullptr,
                .num_tiles = nullptr};
  OCTET_ASSIGN_OR_RETURN(args.tile_to_expert, out("tile_to_expert", {tiles}, "topk_ids"));
  OCTET_ASSIGN_OR_RETURN(args.tile_to_mn_limit, out("tile_to_mn_limit", {tiles}, "topk_ids"));
  OCTET_ASSIGN_OR_RETURN(args.expanded_to_permuted,
                         out("expanded_to_permuted", {args.tokens, args.top_k}, "topk_ids"));
  OCTET_ASSIGN_OR_RETURN(args.permuted_to_expanded,
                         out("permuted_to_expanded", {tiles * tile}, "tile"));
  OCTET_ASSIGN_OR_RETURN(args.num_tiles, out("num_tiles", {1}, "topk_ids"));
  call.is_reference() ? reference::moe_sort(args) : routing::sort(args);
  return {};
}

Status op_moe_permute(OpCall& call) {
  OCTET_ASSIGN_OR_RETURN(const TensorView x, call.need("x", {Dtype::kBf16}, {"T", "H"}));
  OCTET_ASSIGN_OR_RETURN(const TensorView slots,
                         call.need("permuted_to_expanded", {Dtype::kI32}, {"route_slots"}));
  OCTET_ASSIGN_OR_RETURN(const TensorView limits,
                         call.need("tile_to_mn_limit", {Dtype::kI32}, {"tiles"}));
  OCTET_ASSIGN_OR_RETURN(const TensorView num_tiles, call.need("num_tiles", {Dtype::kI32}, {1}));
  OCTET_ASSIGN_OR_RETURN(const int64_t top_k, call.integer("top_k", {1, kMaxTopK}, 6));
  OCTET_ASSIGN_OR_RETURN(const int64_t tile, call.integer("tile", {1, kMaxSortTile}));
  PermuteArgs args{.x = x.as<Bf16>(),
                   .permuted_to_expanded = slots.as<int32_t>(),
                   .tile_to_mn_limit = limits.as<int32_t>(),
                   .num_tiles = *num_tiles.as<int32_t>(),
                   .top_k = top_k,
                   .tile = tile,
                   .hidden = x.dim(1),
                   .route_slots = slots.dim(0),
                   .permuted_x = nullptr};
  OCTET_RETURN_IF_ERROR(check_permute_tables(args, limits.dim(0), x.dim(0)));
  OCTET_ASSIGN_OR_RETURN(args.permuted_x,
                         call.out<Bf16>("permuted_x", Dtype::kBf16, {args.route_slots, args.hidden},
                                        "permuted_to_expanded"));
  call.is_reference() ? reference::moe_permute(args) : routing::permute(args, call.executor);
  return {};
}

Status op_grouped_moe(OpCall& call) {
  OCTET_ASSIGN_OR_RETURN(const TensorView w1, call.need("w1", {Dtype::kU8}, {"E", "2 I", "H/2"}));
  const int64_t experts = w1.dim(0);
  const int64_t two_i = w1.dim(1);
  const int64_t hidden = 2 * w1.dim(2);
  OCTET_RETURN_IF_ERROR(check_multiple("w1", "2 I", two_i, 2 * layouts::kGroupRows));
  OCTET_RETURN_IF_ERROR(check_multiple("w1", "H", hidden, kNvBlock));
  const int64_t i = two_i / 2;
  OCTET_ASSIGN_OR_RETURN(const TensorView w2,
                         call.need("w2", {Dtype::kU8}, {experts, hidden, i / 2}));
  OCTET_ASSIGN_OR_RETURN(const TensorView x, call.need("x", {Dtype::kBf16}, {"T", hidden}));
  OCTET_ASSIGN_OR_RETURN(const TensorView ids,
                         call.need("topk_ids", {Dtype::kI32}, {x.dim(0), "k"}));
  OCTET_RETURN_IF_ERROR(
      call.need("topk_weights", {Dtype::kF32}, {ids.dim(0), ids.dim(1)}).status());
  const auto swizzled = [](int64_t rows, int64_t cols) {
    return layouts::scale_bytes(ScaleLayout::k128x4, rows, cols / kNvBlock);
  };
  OCTET_ASSIGN_OR_RETURN(const TensorView w1_sf,
                         call.need("w1_sf", {Dtype::kU8}, {experts, swizzled(two_i, hidden)}));
  OCTET_ASSIGN_OR_RETURN(const TensorView w2_sf,
                         call.need("w2_sf", {Dtype::kU8}, {experts, swizzled(hidden, i)}));
  OCTET_ASSIGN_OR_RETURN(const TensorView a1, call.need("w1_alpha", {Dtype::kF32}, {experts}));
  OCTET_ASSIGN_OR_RETURN(const TensorView a2, call.need("w2_alpha", {Dtype::kF32}, {experts}));
  const int64_t tile = layouts::grouped_tile(x.dim(0));
  OCTET_ASSIGN_OR_RETURN(const int64_t tiles, route_tiles(ids, experts, tile));
  OCTET_ASSIGN_OR_RETURN(Bf16* const y,
                         call.out<Bf16>("y", Dtype::kBf16, {tiles * tile, hidden}, "topk_ids"));
  OCTET_ASSIGN_OR_RETURN(int32_t* const map, call.out<int32_t>("expanded_to_permuted", Dtype::kI32,
                                                               ids.dims, "topk_ids"));
  const GroupedMoeArgs args{.x = x.as<Bf16>(),
                            .topk_ids = ids.as<int32_t>(),
                            .w1 = w1.as<uint8_t>(),
                            .w1_sf = w1_sf.as<uint8_t>(),
                            .w1_alpha = a1.as<float>(),
                            .w2 = w2.as<uint8_t>(),
                            .w2_sf = w2_sf.as<uint8_t>(),
                            .w2_alpha = a2.as<float>(),
                            .tokens = x.dim(0),
                            .top_k = ids.dim(1),
                            .experts = experts,
                            .hidden = hidden,
                            .intermediate = i,
                            .precision = Precision::kFast,
                            .y = y,
                            .expanded_to_permuted = map};
  call.is_reference() ? reference::grouped_moe(args)
                      : cpu::grouped_moe(args, cpu::best_panel_dot(), call.executor);
  return {};
}

}  // namespace octet::dispatch
