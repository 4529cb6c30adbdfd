// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/modelopt.h"

#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <utility>

#include "checkpoint/plan.h"

namespace octet::checkpoint {
namespace {

// What config.json does not say of a model. Router: semantics.md section 11.
struct ModelRow {
  std::string_view model_type;
  RouterKind router;
  std::string_view experts_key;
  bool is_renormalised;  // norm_topk_prob if absent
};
constexpr ModelRow kModels[] = {
    {"qwen3_moe", RouterKind::kSoftmax, "num_experts", false},
    {"qwen3_next", RouterKind::kSoftmax, "num_experts", true},
    {"flint", RouterKind::kFlint, "num_experts", true},
    {"deepseek_v3", RouterKind::kDeepseekV3, "n_routed_experts", true},
    {"kimi_k2", RouterKind::kDeepseekV3, "n_routed_experts", true},
    {"glm4_moe", RouterKind::kDeepseekV3, "n_routed_experts", true},
};

Result<ModelRow> model_row(const std::string& model_type) {
  std::string built;
  for (const ModelRow& row : kModels) {
    if (row.model_type == model_type) return row;
    built += fmt::format("{}{}", built.empty() ? "" : ", ", row.model_type);
  }
  return unsupported(
      fmt::format("the router of model_type {} is not built yet for format modelopt; built: {}",
                  model_type, built));
}

struct Settings {
  ModelRow row;
  LayerSpec spec;
  bool is_mixed = false;
  bool has_dense_layers = false;  // among those with experts, by the configuration
};

class Modelopt final : public Format {
 public:
  explicit Modelopt(Settings settings) : s_(std::move(settings)) {}
  std::string_view name() const override { return "modelopt"; }
  std::string_view model_type() const override { return s_.row.model_type; }

  std::vector<int64_t> layers(const TensorStore& store) const override {
    std::vector<int64_t> found = store.numbers("model.layers.", ".mlp.experts.");
    if (s_.is_mixed) {
      std::erase_if(found, [&](int64_t layer) {
        return store.find(mlp(layer) + "experts.0.gate_proj.weight_scale_2") == nullptr;
      });
    }
    return found;
  }

  // A dense layer has its matrices in the experts' place; one of another precision has experts that `layers` leaves out.
  bool is_other_layer(int64_t layer, const TensorStore& store) const override {
    const std::string at = mlp(layer);
    return s_.has_dense_layers || store.has_prefix(at + "down_proj.") ||
           store.has_prefix(at + "experts.");
  }

  LayerPlan plan(int64_t layer, const TensorStore* store) const override {
    const std::string at = mlp(layer);
    LayerPlan p{.spec = s_.spec, .tensors = {}};
    // shared_experts in DeepSeek's and GLM's, shared_expert in Qwen's.
    p.spec.has_shared_experts = store != nullptr && store->has_prefix(at + "shared_expert");
    p.tensors.push_back(gate_weight(at + "gate.weight", s_.spec));
    if (s_.spec.router.kind == RouterKind::kDeepseekV3) {
      p.tensors.push_back({.name = at + "gate.e_score_correction_bias",
                           .part = Part::kBias,
                           .dtypes = {Dtype::kF32},
                           .dims = {s_.spec.experts}});
    }
    for (int64_t e = 0; e < s_.spec.experts; ++e) {
      for (const auto& [matrix, name] :
           {std::pair(Matrix::kGate, "gate"), std::pair(Matrix::kUp, "up"),
            std::pair(Matrix::kDown, "down")}) {
        const std::string weight = fmt::format("{}experts.{}.{}_proj.weight", at, e, name);
        add_matrix(p, {.codes = weight,
                       .scales = weight + "_scale",
                       .factor = weight + "_scale_2",
                       .matrix = matrix,
                       .expert = e});
      }
    }
    return p;
  }

 private:
  static std::string mlp(int64_t layer) { return fmt::format("model.layers.{}.mlp.", layer); }
  Settings s_;
};

// The algorithm, from whichever file names it.
Result<std::string> quant_algo(const Config& config, const Config& quant_config) {
  const Config inside = config.object("quantization_config");
  const Config beside = quant_config.object("quantization");
  OCTET_ASSIGN_OR_RETURN(const std::string second, beside.text("quant_algo", ""));
  OCTET_ASSIGN_OR_RETURN(const std::string algo, inside.text("quant_algo", second));
  if (!second.empty() && algo != second) {
    return invalid_argument(fmt::format(
        "quant_algo {} in config.json, {} in hf_quant_config.json, wanted the same", algo, second));
  }
  for (const Config* c : {&inside, &beside}) {
    OCTET_ASSIGN_OR_RETURN(const int64_t group, c->integer("group_size", kCounts, kNvBlock));
    if (group != kNvBlock) {
      return unsupported(fmt::format("group_size {} is not built, wanted {}", group, kNvBlock));
    }
  }
  if (algo != "NVFP4" && algo != "W4A16_NVFP4" && algo != "MIXED_PRECISION") {
    return unsupported(
        fmt::format("quant_algo {} is not built yet; built: NVFP4, W4A16_NVFP4, MIXED_PRECISION",
                    algo.empty() ? "none" : algo));
  }
  return algo;
}

Result<RouterSpec> read_router(const Config& config, const ModelRow& row, RouterSpec router) {
  router.kind = row.router;
  OCTET_ASSIGN_OR_RETURN(const bool is_renormalised,
                         config.boolean("norm_topk_prob", row.is_renormalised));
  if (!is_renormalised) return unsupported("norm_topk_prob false is not built yet, wanted true");
  if (row.router != RouterKind::kDeepseekV3) return router;
  OCTET_ASSIGN_OR_RETURN(const std::string scoring, config.text("scoring_func", "sigmoid"));
  if (scoring != "sigmoid") {
    return unsupported(fmt::format("scoring_func {} is not built yet, wanted sigmoid", scoring));
  }
  OCTET_ASSIGN_OR_RETURN(router.groups, config.integer("n_group", kExpertCounts, 1));
  OCTET_ASSIGN_OR_RETURN(router.groups_kept, config.integer("topk_group", kExpertCounts, 1));
  OCTET_ASSIGN_OR_RETURN(router.scale, read_scale(config));
  return router;
}

// Keys by which layers in the midst of a model are dense: every other one and the like, or a list.
bool has_dense_layers(const Config& config) {
  for (const char* step : {"decoder_sparse_step", "moe_layer_freq", "interleave_moe_layer_step"}) {
    if (config.has(step) && !config.integer(step, {1, 1}).ok()) return true;
  }
  return config.has("mlp_only_layers") && !config.is_empty_list("mlp_only_layers");
}

}  // namespace

Result<std::unique_ptr<const Format>> modelopt_format(const Config& config,
                                                      const Config& quant_config) {
  OCTET_ASSIGN_OR_RETURN(const std::string model_type, config.text("model_type"));
  OCTET_ASSIGN_OR_RETURN(const std::string algo, quant_algo(config, quant_config));
  Settings s;
  s.is_mixed = algo == "MIXED_PRECISION";
  s.has_dense_layers = has_dense_layers(config);
  OCTET_ASSIGN_OR_RETURN(s.row, model_row(model_type));
  OCTET_ASSIGN_OR_RETURN(s.spec, read_sizes(config, {.hidden = "hidden_size",
                                                     .intermediate = "moe_intermediate_size",
                                                     .experts = s.row.experts_key,
                                                     .top_k = "num_experts_per_tok"}));
  s.spec.weights = WeightFormat::kNvfp4;
  OCTET_ASSIGN_OR_RETURN(s.spec.router, read_router(config, s.row, s.spec.router));
  OCTET_RETURN_IF_ERROR(check_spec(s.spec));
  return std::unique_ptr<const Format>(std::make_unique<Modelopt>(std::move(s)));
}

}  // namespace octet::checkpoint
