// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/synth_presets.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoint/format.h"
#include "checkpoint/model_sizes.h"
#include "checkpoint/synth.h"
#include "core/nearest.h"
#include "core/shape.h"

namespace octet::checkpoint {
namespace {

using Json = nlohmann::ordered_json;  // keys stay in the order written here
using Kind = Fill::Kind;

constexpr int64_t kVocab = 129280;  // DeepSeek's
constexpr int64_t kHashLayers = 3;  // V4-Flash's
constexpr int64_t kVisionLayers = 24;

// ---- Configuration files

Json deepseek_text(const SynthPreset& p, const SynthSizes& s, int64_t hash_layers) {
  return {{"hidden_size", s.hidden},        {"moe_intermediate_size", s.intermediate},
          {"n_routed_experts", s.experts},  {"n_shared_experts", 1},
          {"num_experts_per_tok", p.top_k}, {"num_hidden_layers", s.layers},
          {"num_hash_layers", hash_layers}, {"scoring_func", "sqrtsoftplus"},
          {"topk_method", "noaux_tc"},      {"norm_topk_prob", true},
          {"routed_scaling_factor", 1.5},   {"swiglu_limit", 10.0},
          {"vocab_size", kVocab},           {"expert_dtype", "fp4"}};
}

Json deepseek_quantization(int64_t fp8_block) {
  return {{"quant_method", "fp8"},
          {"fmt", "e4m3"},
          {"scale_fmt", "ue8m0"},
          {"weight_block_size", {fp8_block, fp8_block}}};
}

std::vector<SynthText> config_text(const Json& config) {
  return {{"config.json", config.dump(2) + "\n"}};
}

std::vector<SynthText> v4_texts(const SynthPreset& p, const SynthSizes& s) {
  Json config = {{"model_type", "deepseek_v4"}, {"architectures", {"DeepseekV4ForCausalLM"}}};
  config.update(deepseek_text(p, s, kHashLayers));
  config["quantization_config"] = deepseek_quantization(p.fp8_block);
  return config_text(config);
}

std::vector<SynthText> v41_texts(const SynthPreset& p, const SynthSizes& s) {
  Json quantization = deepseek_quantization(p.fp8_block);
  quantization["expert_dtype"] = "fp4";
  return config_text({{"model_type", "deepseek_v41"},
                      {"architectures", {"DeepseekV41ForConditionalGeneration"}},
                      {"text_config", deepseek_text(p, s, 0)},
                      {"vision_config", {{"num_hidden_layers", kVisionLayers}}},
                      {"quantization_config", quantization}});
}

std::vector<SynthText> gpt_oss_texts(const SynthPreset& p, const SynthSizes& s) {
  return config_text({{"model_type", "gpt_oss"},
                      {"architectures", {"GptOssForCausalLM"}},
                      {"hidden_size", s.hidden},
                      {"intermediate_size", s.intermediate},
                      {"num_local_experts", s.experts},
                      {"num_experts_per_tok", p.top_k},
                      {"experts_per_token", p.top_k},
                      {"num_hidden_layers", s.layers},
                      {"swiglu_limit", 7.0},
                      {"hidden_act", "silu"},
                      {"quantization_config", {{"quant_method", "mxfp4"}}}});
}

std::vector<SynthText> modelopt_texts(const SynthPreset& p, const SynthSizes& s) {
  const Json config = {
      {"model_type", "flint"},
      {"architectures", {"FlintForCausalLM"}},
      {"hidden_size", s.hidden},
      {"moe_intermediate_size", s.intermediate},
      {"num_experts", s.experts},
      {"num_experts_per_tok", p.top_k},
      {"norm_topk_prob", true},
      {"num_hidden_layers", s.layers},
      {"hidden_act", "silu"},
      {"quantization_config",
       {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}, {"group_size", kNvBlock}}}};
  const Json quantization = {
      {"producer", {{"name", "modelopt"}, {"version", "0.39"}}},
      {"quantization",
       {{"quant_algo", "NVFP4"}, {"group_size", kNvBlock}, {"exclude_modules", {"lm_head"}}}}};
  std::vector<SynthText> texts = config_text(config);
  texts.push_back({"hf_quant_config.json", quantization.dump(2) + "\n"});
  return texts;
}

// ---- Tensors

Fill normal(double spread) { return {.kind = Kind::kNormal, .spread = spread}; }

// Ordinary numbers in, ordinary numbers out: a product's row sums to about 1 for rows of x of about 1, logits are about 1.
Fill fill_of(const TensorPlan& tensor, const LayerSpec& spec) {
  switch (tensor.part) {
    case Part::kCodes:
      return {};
    case Part::kScales:
      return spec.weights == WeightFormat::kMxfp4
                 ? ue8m0_fill(kE2m1Rms, tensor.dims.back() * kMxBlock)
                 : e4m3_scale_fill();
    case Part::kFactor:
      return e4m3_factor_fill(tensor.matrix == Matrix::kDown ? spec.intermediate : spec.hidden);
    case Part::kGateWeight:
      return normal(1.0 / std::sqrt(static_cast<double>(spec.hidden)));
    case Part::kLogitBias:
      return normal(0.5);
    case Part::kBias:
    case Part::kBiasVl:
      return normal(0.1);  // scores are around 0.8 with a deviation of 0.3
    case Part::kRowBias:
      return normal(0.2);
    case Part::kTable:
      return {.kind = Kind::kIds, .below = spec.experts};
  }
  return {};
}

// The factor of a ModelOpt matrix, with its input's. Gate and up share theirs: ModelOpt unifies those of matrices that are
// fused.
void add_factor(std::vector<SynthTensor>& out, const TensorPlan& plan, SynthTensor factor) {
  constexpr std::string_view kSuffix = "weight_scale_2";
  const std::string at = plan.name.substr(0, plan.name.size() - kSuffix.size());
  const bool is_down = plan.matrix == Matrix::kDown;
  const std::string key = is_down ? at : at.substr(0, at.rfind('.', at.size() - 2)) + ".gate_up";
  factor.key = key + " weight";
  SynthTensor input{at + "input_scale",
                    Dtype::kF32,
                    plan.dims,
                    {.kind = Kind::kUniform, .centre = 4.0 / 2688},
                    key + " input"};
  out.push_back(std::move(factor));
  out.push_back(std::move(input));
}

// DeepSeek's shared expert: FP8 with a UE8M0 for every block x block.
void add_shared_expert(std::vector<SynthTensor>& out, int64_t layer, const SynthSizes& s,
                       int64_t block) {
  const struct {
    const char* name;
    int64_t rows, cols;
  } matrices[] = {{"w1", s.intermediate, s.hidden},
                  {"w2", s.hidden, s.intermediate},
                  {"w3", s.intermediate, s.hidden}};
  for (const auto& [name, rows, cols] : matrices) {
    const std::string at = fmt::format("layers.{}.ffn.shared_experts.{}.", layer, name);
    out.push_back({at + "weight", Dtype::kE4m3, {rows, cols}, e4m3_weight_fill(), {}});
    out.push_back({at + "scale",
                   Dtype::kUe8m0,
                   {ceil_div(rows, block), ceil_div(cols, block)},
                   ue8m0_fill(kE4m3WeightRms, cols),
                   {}});
  }
}

Result<std::unique_ptr<const Format>> format_of(const std::vector<SynthText>& texts) {
  Config config, quantization;
  for (const SynthText& text : texts) {
    OCTET_ASSIGN_OR_RETURN(Config parsed, Config::parse(text.text, text.file));
    (text.file == "config.json" ? config : quantization) = std::move(parsed);
  }
  return make_format(config, quantization, nullptr);
}

constexpr SynthPreset preset(std::string_view name, const ModelSizes& m, int64_t block,
                             int64_t fp8_block, SynthTexts texts) {
  return {name, {1, m.experts, m.hidden, m.intermediate}, m.top_k, block, fp8_block, texts};
}
constexpr SynthPreset kPresets[] = {
    preset("deepseek-v4.1-flash", kV41Flash, kMxBlock, 32, v41_texts),  // of 40 layers
    preset("deepseek-v4-flash", kV4Flash, kMxBlock, 128, v4_texts),     // of 43
    preset("gpt-oss-20b", kGptOss20b, kMxBlock, 0, gpt_oss_texts),      // of 24
    preset("flint-modelopt", kFlint, kNvBlock, 0, modelopt_texts),
};
constexpr std::string_view kNotBuilt[] = {"flint-ct", "ct-mxfp4", "flint-gguf", "gpt-oss-gguf"};

}  // namespace

std::vector<std::string_view> synth_presets() {
  std::vector<std::string_view> names;
  for (const SynthPreset& preset : kPresets) names.push_back(preset.name);
  return names;
}

Result<const SynthPreset*> find_synth_preset(std::string_view name) {
  for (const SynthPreset& preset : kPresets) {
    if (preset.name == name) return &preset;
  }
  std::vector<std::string_view> names = synth_presets();
  if (std::ranges::find(kNotBuilt, name) != std::end(kNotBuilt)) {
    return unsupported(
        fmt::format("preset {} is not built yet, only {}", name, fmt::join(names, ", ")));
  }
  std::string hint = did_you_mean(name, names);
  if (hint.empty()) hint = fmt::format("; there are {}", fmt::join(names, ", "));
  return misuse(fmt::format("no preset is called \"{}\"{}", name, hint));
}

Result<std::vector<SynthTensor>> synth_tensors(const SynthPreset& preset, const SynthSizes& sizes,
                                               const std::vector<SynthText>& texts) {
  OCTET_ASSIGN_OR_RETURN(const std::unique_ptr<const Format> format, format_of(texts));
  std::vector<SynthTensor> tensors;
  for (int64_t n = 0; n < sizes.layers; ++n) {
    const LayerPlan layer = format->plan(n, nullptr);
    for (const TensorPlan& plan : layer.tensors) {
      SynthTensor t{plan.name, plan.dtypes.front(), plan.dims, fill_of(plan, layer.spec), {}};
      for (int64_t& dim : t.dims) dim = dim < 0 ? kVocab : dim;  // the table's rows alone are open
      if (plan.part == Part::kFactor) {
        add_factor(tensors, plan, std::move(t));
      } else {
        tensors.push_back(std::move(t));
      }
    }
    if (preset.fp8_block > 0) add_shared_expert(tensors, n, sizes, preset.fp8_block);
  }
  return tensors;
}

}  // namespace octet::checkpoint
