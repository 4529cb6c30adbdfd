// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepseek.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <string>
#include <utility>

#include "checkpoint/plan.h"

namespace octet::checkpoint {
namespace {

// First of the five image token ids. docs/checkpoints.md section 1.
constexpr int64_t kImageIdV4 = 129257;
constexpr int64_t kImageIdV41 = 129264;

struct Settings {
  std::string model_type;
  LayerSpec spec;
  int64_t vocab = kAnySize;
  int64_t hidden_layers = 0;  // 0: the configuration does not say
  int64_t hash_layers = 0;
  bool has_vision = false;
  bool has_shared_experts = false;
};

class Deepseek final : public Format {
 public:
  explicit Deepseek(Settings settings) : s_(std::move(settings)) {}
  std::string_view name() const override { return "deepseek_v4"; }
  std::string_view model_type() const override { return s_.model_type; }
  std::vector<int64_t> layers(const TensorStore& store) const override {
    std::vector<int64_t> found = store.numbers("layers.", ".ffn.experts.");
    const int64_t first = first_mtp(store);
    for (const int64_t m : store.numbers("mtp.", ".ffn.gate.weight")) found.push_back(first + m);
    return found;
  }
  std::string layer_name(int64_t layer, const TensorStore& store) const override {
    const int64_t first = first_mtp(store);
    return layer < first ? plain_layer_name(layer) : fmt::format("mtp.{}", layer - first);
  }

  std::optional<int64_t> num_layers() const override {
    return s_.hidden_layers > 0 ? std::optional(s_.hidden_layers) : std::nullopt;
  }

  LayerPlan plan(int64_t layer, const TensorStore* store) const override {
    const std::string ffn =
        (store == nullptr ? plain_layer_name(layer) : layer_name(layer, *store)) + ".ffn.";
    LayerPlan p{.spec = s_.spec, .tensors = {}};
    p.spec.has_shared_experts =
        s_.has_shared_experts && (store == nullptr || store->has_prefix(ffn + "shared_experts."));
    add_router(p, layer < s_.hash_layers && ffn.starts_with("layers."), ffn + "gate.", store);
    for (int64_t e = 0; e < s_.spec.experts; ++e) {
      const std::string at = fmt::format("{}experts.{}.", ffn, e);
      for (const auto& [matrix, w] : {std::pair(Matrix::kGate, "w1"), std::pair(Matrix::kUp, "w3"),
                                      std::pair(Matrix::kDown, "w2")}) {
        add_matrix(p, {.codes = at + w + ".weight",
                       .scales = at + w + ".scale",
                       .matrix = matrix,
                       .expert = e,
                       .code_dtype = Dtype::kI8});
      }
    }
    return p;
  }

 private:
  // Layers for multi-token prediction are counted on from the model's own, as its authors' code does.
  int64_t first_mtp(const TensorStore& store) const {
    if (!store.has_prefix("mtp.")) return std::numeric_limits<int64_t>::max();
    const std::vector<int64_t> own = store.numbers("layers.", ".ffn.experts.");
    return std::max(s_.hidden_layers, own.empty() ? 0 : own.back() + 1);
  }

  void add_router(LayerPlan& p, bool is_hash, const std::string& gate,
                  const TensorStore* store) const {
    const int64_t experts = s_.spec.experts;
    p.tensors.push_back(gate_weight(gate + "weight", s_.spec));
    if (is_hash) {
      p.spec.router.kind = RouterKind::kHash;
      const bool is_tie = store != nullptr && store->find(gate + "tie2eid") != nullptr;
      p.tensors.push_back({.name = gate + (is_tie ? "tie2eid" : "tid2eid"),
                           .part = Part::kTable,
                           .dtypes = {Dtype::kI32},
                           .dims = {s_.vocab, s_.spec.router.top_k}});
    } else {
      p.tensors.push_back(
          {.name = gate + "bias", .part = Part::kBias, .dtypes = {Dtype::kF32}, .dims = {experts}});
    }
    // One for multi-token prediction may do without.
    const bool is_mtp = gate.starts_with("mtp.");
    if (s_.has_vision && (!is_mtp || store->find(gate + "bias_vl") != nullptr)) {
      p.tensors.push_back({.name = gate + "bias_vl",
                           .part = Part::kBiasVl,
                           .dtypes = {Dtype::kF32},
                           .dims = {experts}});
    }
  }

  Settings s_;
};

// Keys that select what is not built.
Status check_router(const Config& text) {
  OCTET_ASSIGN_OR_RETURN(const std::string scoring, text.text("scoring_func", "sqrtsoftplus"));
  if (scoring != "sqrtsoftplus") {
    return unsupported(
        fmt::format("scoring_func {} is not built yet, wanted sqrtsoftplus", scoring));
  }
  OCTET_ASSIGN_OR_RETURN(const bool is_renormalised, text.boolean("norm_topk_prob", true));
  if (!is_renormalised) return unsupported("norm_topk_prob false is not built yet, wanted true");
  OCTET_ASSIGN_OR_RETURN(const std::string method, text.text("topk_method", "noaux_tc"));
  if (method != "noaux_tc") {
    return unsupported(fmt::format("topk_method {} is not built yet, wanted noaux_tc", method));
  }
  return {};
}

Status check_expert_dtype(const Config& config, const Config& text) {
  OCTET_ASSIGN_OR_RETURN(const std::string inside,
                         config.object("quantization_config").text("expert_dtype", "fp4"));
  OCTET_ASSIGN_OR_RETURN(const std::string dtype, text.text("expert_dtype", inside));
  if (dtype == "fp4") return {};
  return unsupported(fmt::format("expert_dtype {} is not built yet, wanted fp4", dtype));
}

Result<bool> has_vision_layers(const Config& config) {
  OCTET_ASSIGN_OR_RETURN(const int64_t plain, config.integer("vision_n_layers", kCounts, 0));
  OCTET_ASSIGN_OR_RETURN(const int64_t nested,
                         config.object("vision_config").integer("num_hidden_layers", kCounts, 0));
  return plain > 0 || nested > 0;
}

}  // namespace

Result<std::unique_ptr<const Format>> deepseek_format(const Config& config) {
  const Config text = config.has("text_config") ? config.object("text_config") : config;
  OCTET_RETURN_IF_ERROR(check_router(text));
  OCTET_RETURN_IF_ERROR(check_expert_dtype(config, text));
  Settings s;
  OCTET_ASSIGN_OR_RETURN(s.model_type, config.text("model_type"));
  OCTET_ASSIGN_OR_RETURN(s.spec, read_sizes(text, {.hidden = "hidden_size",
                                                   .intermediate = "moe_intermediate_size",
                                                   .experts = "n_routed_experts",
                                                   .top_k = "num_experts_per_tok"}));
  s.spec.activations = Activations::kMxfp8;
  s.spec.router.kind = RouterKind::kDsv4;
  OCTET_ASSIGN_OR_RETURN(s.spec.router.scale, read_scale(text));
  OCTET_ASSIGN_OR_RETURN(s.spec.swiglu.limit, read_limit(text, {}));
  OCTET_ASSIGN_OR_RETURN(s.vocab, text.integer("vocab_size", kCounts, kAnySize));
  OCTET_ASSIGN_OR_RETURN(s.hidden_layers, text.integer("num_hidden_layers", kLayerCounts, 0));
  OCTET_ASSIGN_OR_RETURN(s.hash_layers, text.integer("num_hash_layers", kCounts, 0));
  OCTET_ASSIGN_OR_RETURN(const int64_t shared, text.integer("n_shared_experts", kCounts, 0));
  s.has_shared_experts = shared > 0;
  OCTET_ASSIGN_OR_RETURN(s.has_vision, has_vision_layers(config));
  if (s.has_vision) {
    s.spec.router.image_sentinel_lo = s.model_type == "deepseek_v41" ? kImageIdV41 : kImageIdV4;
  }
  OCTET_RETURN_IF_ERROR(check_spec(s.spec));
  return std::unique_ptr<const Format>(std::make_unique<Deepseek>(std::move(s)));
}

}  // namespace octet::checkpoint
