// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/shard.h"

#include <fmt/format.h>
#include <string_view>

namespace octet::checkpoint {
namespace {

struct Cut {
  std::string_view axis;  // tp or ep
  int64_t rank, ranks;
  std::string_view what;  // what it cuts, and how much there is
  int64_t size;
};

Status check_cut(const Cut& c) {
  if (c.ranks < 1)
    return invalid_argument(fmt::format("{} of {} ranks, wanted 1 or more", c.axis, c.ranks));
  if (c.rank < 0 || c.rank >= c.ranks) {
    return invalid_argument(
        fmt::format("{} rank {}, wanted 0 ... {}", c.axis, c.rank, c.ranks - 1));
  }
  if (c.size % c.ranks != 0) {
    return invalid_argument(
        fmt::format("{} {} is not a multiple of {} {}", c.what, c.size, c.axis, c.ranks));
  }
  return {};
}

void cut_bias(layouts::BiasView& bias, int64_t first) {
  if (bias.data != nullptr) bias.data += first * bias.stride;
}

}  // namespace

Status check_shard(const LayerSpec& whole, const Shard& shard) {
  OCTET_RETURN_IF_ERROR(
      check_cut({"tp", shard.tp_rank, shard.tp_ranks, "intermediate", whole.intermediate}));
  OCTET_RETURN_IF_ERROR(check_cut({"ep", shard.ep_rank, shard.ep_ranks, "experts", whole.experts}));
  const int64_t columns = whole.intermediate / shard.tp_ranks;
  if (columns < kMinSliceColumns) {
    return invalid_argument(
        fmt::format("intermediate {} over tp {} is {} columns a rank, wanted at least {}",
                    whole.intermediate, shard.tp_ranks, columns, kMinSliceColumns));
  }
  return {};
}

LayerSpec shard_spec(const LayerSpec& whole, const Shard& shard) {
  LayerSpec spec = whole;
  spec.intermediate = whole.intermediate / shard.tp_ranks;
  spec.local_experts = whole.experts / shard.ep_ranks;
  spec.first_expert = spec.local_experts * shard.ep_rank;
  return spec;
}

layouts::ExpertWeights shard_expert(const layouts::ExpertWeights& whole, const Shard& shard) {
  const int64_t count = whole.gate.rows / shard.tp_ranks;
  const int64_t first = count * shard.tp_rank;
  layouts::ExpertWeights e = whole;
  e.gate = whole.gate.slice_rows(first, count);
  e.up = whole.up.slice_rows(first, count);
  e.down = whole.down.slice_cols(first, count);
  cut_bias(e.gate_bias, first);
  cut_bias(e.up_bias, first);
  if (shard.tp_rank != 0) e.down_bias = {};  // the ranks' outputs are added: it counts once
  return e;
}

void apply_shard(LayerTensors& layer, const Shard& shard) {
  layer.spec = shard_spec(layer.spec, shard);
  const auto first = layer.experts.begin() + layer.spec.first_expert;
  layer.experts = {first, first + layer.spec.local_experts};
  for (layouts::ExpertWeights& e : layer.experts) e = shard_expert(e, shard);
}

}  // namespace octet::checkpoint
