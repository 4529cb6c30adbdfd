// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/gpt_oss.h"

#include <fmt/format.h>
#include <string>

#include "checkpoint/plan.h"

namespace octet::checkpoint {
namespace {

constexpr float kAlpha = 1.702F;
constexpr float kBeta = 1.0F;
constexpr double kLimit = 7.0;

class GptOss final : public Format {
 public:
  GptOss(const LayerSpec& spec, int64_t num_layers) : spec_(spec), num_layers_(num_layers) {}
  std::string_view name() const override { return "gpt_oss"; }
  std::string_view model_type() const override { return "gpt_oss"; }
  std::vector<int64_t> layers(const TensorStore& store) const override {
    return store.numbers("model.layers.", ".mlp.experts.");
  }

  std::optional<int64_t> num_layers() const override {
    return num_layers_ > 0 ? std::optional(num_layers_) : std::nullopt;
  }

  LayerPlan plan(int64_t layer, const TensorStore*) const override {
    const std::string mlp = fmt::format("model.layers.{}.mlp.", layer);
    LayerPlan p{.spec = spec_, .tensors = {}};
    p.tensors.push_back(gate_weight(mlp + "router.weight", spec_));
    p.tensors.push_back({.name = mlp + "router.bias",
                         .part = Part::kLogitBias,
                         .dtypes = {Dtype::kBf16, Dtype::kF32},
                         .dims = {spec_.experts}});
    add_stack(p, mlp + "experts.gate_up_proj", Matrix::kGateUp, 2 * spec_.intermediate,
              spec_.hidden);
    add_stack(p, mlp + "experts.down_proj", Matrix::kDown, spec_.hidden, spec_.intermediate);
    return p;
  }

 private:
  static void add_stack(LayerPlan& p, const std::string& name, Matrix matrix, int64_t rows,
                        int64_t cols) {
    const int64_t experts = p.spec.experts;
    const int64_t blocks = cols / kMxBlock;
    const auto add = [&](const char* ending, Part part, Dtype dtype, Dims dims) {
      p.tensors.push_back({.name = name + ending,
                           .part = part,
                           .matrix = matrix,
                           .dtypes = {dtype},
                           .dims = std::move(dims)});
    };
    add("_blocks", Part::kCodes, Dtype::kU8, {experts, rows, blocks, kMxBlock / 2});
    add("_scales", Part::kScales, Dtype::kU8, {experts, rows, blocks});
    add("_bias", Part::kRowBias, Dtype::kBf16, {experts, rows});
  }

  LayerSpec spec_;
  int64_t num_layers_;  // 0: the configuration does not say
};

}  // namespace

Result<std::unique_ptr<const Format>> gpt_oss_format(const Config& config) {
  const bool is_short = !config.has("num_experts_per_tok") && config.has("experts_per_token");
  OCTET_ASSIGN_OR_RETURN(
      LayerSpec spec,
      read_sizes(config, {.hidden = "hidden_size",
                          .intermediate = "intermediate_size",
                          .experts = "num_local_experts",
                          .top_k = is_short ? "experts_per_token" : "num_experts_per_tok"}));
  spec.router.kind = RouterKind::kSoftmax;
  spec.swiglu = {.limit = 0, .alpha = kAlpha, .beta = kBeta};
  OCTET_ASSIGN_OR_RETURN(spec.swiglu.limit, read_limit(config, kLimit));
  OCTET_ASSIGN_OR_RETURN(const int64_t layers,
                         config.integer("num_hidden_layers", kLayerCounts, 0));
  OCTET_RETURN_IF_ERROR(check_spec(spec));
  return std::unique_ptr<const Format>(std::make_unique<GptOss>(spec, layers));
}

}  // namespace octet::checkpoint
