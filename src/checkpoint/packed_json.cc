// SPDX-License-Identifier: Apache-2.0
// A packed layer's metadata: to JSON and back.
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <span>

#include "checkpoint/config.h"
#include "checkpoint/format.h"
#include "checkpoint/packed_file.h"
#include "checkpoint/plan.h"
#include "checkpoint/shard.h"

namespace octet::checkpoint {
namespace {

// An enum's value by its name_of.
template <class Enum>
Result<Enum> named(const Config& c, std::string_view key, std::initializer_list<Enum> all) {
  OCTET_ASSIGN_OR_RETURN(const std::string text, c.text(key));
  std::string wanted;
  for (const Enum e : all) {
    if (name_of(e) == text) return e;
    wanted += fmt::format("{}{}", wanted.empty() ? "" : " or ", name_of(e));
  }
  return invalid_argument(fmt::format("{} {}, wanted {}", key, text, wanted));
}

Result<float> binary32(const Config& c, std::string_view key) {
  OCTET_ASSIGN_OR_RETURN(const double value, c.number(key));
  if (std::isfinite(static_cast<float>(value))) return static_cast<float>(value);
  return invalid_argument(fmt::format("{} {}, wanted a binary32 number", key, value));
}

// Ids are I32 numbers; 0 and below: no row is an image.
constexpr Config::Range kTokenIds = {INT32_MIN, INT32_MAX};

Result<RouterSpec> read_router(const Config& c) {
  RouterSpec r;
  OCTET_ASSIGN_OR_RETURN(r.kind,
                         named(c, "kind",
                               {RouterKind::kDsv4, RouterKind::kHash, RouterKind::kDeepseekV3,
                                RouterKind::kSoftmax, RouterKind::kFlint}));
  OCTET_ASSIGN_OR_RETURN(r.top_k, c.integer("top_k", kExpertCounts));
  OCTET_ASSIGN_OR_RETURN(r.scale, binary32(c, "scale"));
  if (!(r.scale > 0)) return invalid_argument(fmt::format("scale {}, wanted above 0", r.scale));
  OCTET_ASSIGN_OR_RETURN(r.groups, c.integer("groups", kExpertCounts));
  OCTET_ASSIGN_OR_RETURN(r.groups_kept, c.integer("groups_kept", kExpertCounts));
  OCTET_ASSIGN_OR_RETURN(r.image_sentinel_lo, c.integer("image_sentinel_lo", kTokenIds));
  return r;
}

Result<Swiglu> read_swiglu(const Config& c) {
  Swiglu s;
  OCTET_ASSIGN_OR_RETURN(s.limit, binary32(c, "limit"));
  OCTET_ASSIGN_OR_RETURN(s.alpha, binary32(c, "alpha"));
  OCTET_ASSIGN_OR_RETURN(s.beta, binary32(c, "beta"));
  if (!(s.limit > 0)) return invalid_argument(fmt::format("limit {}, wanted above 0", s.limit));
  if (!(s.alpha > 0)) return invalid_argument(fmt::format("alpha {}, wanted above 0", s.alpha));
  if (s.beta < 0) return invalid_argument(fmt::format("beta {}, wanted 0 or above", s.beta));
  return s;
}

Result<Shard> read_shard(const Config& c) {
  Shard s;
  OCTET_ASSIGN_OR_RETURN(s.tp_rank, c.integer("tp_rank", kRanks));
  OCTET_ASSIGN_OR_RETURN(s.tp_ranks, c.integer("tp_ranks", kSizes));
  OCTET_ASSIGN_OR_RETURN(s.ep_rank, c.integer("ep_rank", kRanks));
  OCTET_ASSIGN_OR_RETURN(s.ep_ranks, c.integer("ep_ranks", kSizes));
  return s;
}

// Whole sizes; the rank's follow from the shard.
Result<LayerSpec> read_spec(const Config& c, const Shard& shard) {
  OCTET_ASSIGN_OR_RETURN(LayerSpec spec, read_sizes(c, {.hidden = "hidden",
                                                        .intermediate = "intermediate",
                                                        .experts = "experts",
                                                        .top_k = "top_k"}));
  OCTET_ASSIGN_OR_RETURN(spec.weights,
                         named(c, "weights", {WeightFormat::kMxfp4, WeightFormat::kNvfp4}));
  OCTET_ASSIGN_OR_RETURN(spec.activations,
                         named(c, "activations", {Activations::kBf16, Activations::kMxfp8}));
  OCTET_ASSIGN_OR_RETURN(spec.has_shared_experts, c.boolean("has_shared_experts"));
  const int64_t top_k = spec.router.top_k;
  OCTET_ASSIGN_OR_RETURN(spec.router, read_router(c.object("router")));
  if (spec.router.top_k != top_k) {
    return invalid_argument(
        fmt::format("router top_k {}, wanted the spec's {}", spec.router.top_k, top_k));
  }
  OCTET_ASSIGN_OR_RETURN(spec.swiglu, read_swiglu(c.object("swiglu")));
  OCTET_RETURN_IF_ERROR(check_spec(spec));
  OCTET_RETURN_IF_ERROR(check_shard(spec, shard));
  return shard_spec(spec, shard);
}

// The sizes written must be those that follow from spec and shard: a file of another layout is not read as this one.
Status check_sizes(const Config& c, const layouts::PanelSizes& s) {
  const std::pair<std::string_view, int64_t> wanted[] = {
      {"gate_up_panels", s.gate_up_panels}, {"down_panels", s.down_panels},
      {"gate_up_blocks", s.gate_up_blocks}, {"down_blocks", s.down_blocks},
      {"down_start", s.down_start},         {"expert_bytes", s.expert_bytes()}};
  for (const auto& [key, value] : wanted) {
    OCTET_ASSIGN_OR_RETURN(const int64_t found, c.integer(key, {0, INT64_MAX}));
    if (found != value) {
      return invalid_argument(fmt::format("{} {}, wanted {}", key, found, value));
    }
  }
  return {};
}

Result<PackedLayer> read_layer(const Config& c) {
  PackedLayer layer;
  OCTET_ASSIGN_OR_RETURN(layer.model_type, c.text("model_type"));
  OCTET_ASSIGN_OR_RETURN(layer.shard, read_shard(c.object("shard")));
  OCTET_ASSIGN_OR_RETURN(layer.spec, read_spec(c.object("spec"), layer.shard));
  layer.sizes = layouts::panel_sizes(packed_expert(layer));
  OCTET_RETURN_IF_ERROR(check_sizes(c.object("panels"), layer.sizes));
  return layer;
}

}  // namespace

std::string to_json(const PackedLayer& layer) {
  const LayerSpec& s = layer.spec;
  const RouterSpec& r = s.router;
  const layouts::PanelSizes& p = layer.sizes;
  const nlohmann::json root = {
      {"model_type", layer.model_type},
      {"shard",
       {{"tp_rank", layer.shard.tp_rank},
        {"tp_ranks", layer.shard.tp_ranks},
        {"ep_rank", layer.shard.ep_rank},
        {"ep_ranks", layer.shard.ep_ranks}}},
      {"spec",
       {{"hidden", s.hidden},
        {"intermediate", s.intermediate * layer.shard.tp_ranks},
        {"experts", s.experts},
        {"top_k", r.top_k},
        {"weights", name_of(s.weights)},
        {"activations", name_of(s.activations)},
        {"has_shared_experts", s.has_shared_experts},
        {"swiglu", {{"limit", s.swiglu.limit}, {"alpha", s.swiglu.alpha}, {"beta", s.swiglu.beta}}},
        {"router",
         {{"kind", name_of(r.kind)},
          {"top_k", r.top_k},
          {"scale", r.scale},
          {"groups", r.groups},
          {"groups_kept", r.groups_kept},
          {"image_sentinel_lo", r.image_sentinel_lo}}}}},
      {"panels",
       {{"gate_up_panels", p.gate_up_panels},
        {"down_panels", p.down_panels},
        {"gate_up_blocks", p.gate_up_blocks},
        {"down_blocks", p.down_blocks},
        {"down_start", p.down_start},
        {"expert_bytes", p.expert_bytes()}}}};
  return root.dump();
}

Result<PackedLayer> packed_layer_from_json(std::string_view text, std::string_view where) {
  OCTET_ASSIGN_OR_RETURN(const Config config, Config::parse(text, where));
  auto layer = read_layer(config);
  if (layer.ok()) return layer;
  // Config's own sentences begin with `where` already.
  const std::string& why = layer.status().why;
  return invalid_argument(why.starts_with(where) ? why : fmt::format("{}: {}", where, why));
}

}  // namespace octet::checkpoint
