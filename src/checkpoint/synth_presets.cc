// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/synth_presets.h"

#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoint/synth.h"
#include "core/nearest.h"
#include "core/shape.h"

namespace octet::checkpoint {
namespace {

using Json = nlohmann::ordered_json;  // keys stay in the order written here
using Tensors = std::vector<SynthTensor>;
using Kind = Fill::Kind;

constexpr int64_t kVocab = 129280;  // DeepSeek's
constexpr int64_t kHashLayers = 3;  // V4-Flash's
constexpr int64_t kVisionLayers = 24;

double unit_row(int64_t width) { return 1.0 / std::sqrt(static_cast<double>(width)); }

Fill normal(double spread) { return {.kind = Kind::kNormal, .spread = spread}; }

// `codes` of `dtype` [dims..., width] with one UE8M0 for 32 columns.
void add_mxfp4(Tensors& t, const std::string& codes, const std::string& scales, Dtype code_dtype,
               Dtype scale_dtype, const Dims& code_dims, const Dims& scale_dims) {
  t.push_back({codes, code_dtype, code_dims, {}, {}});
  t.push_back(
      {scales, scale_dtype, scale_dims, ue8m0_fill(kE2m1Rms, scale_dims.back() * kMxBlock), {}});
}

// ---- DeepSeek

// One FP8 matrix of the shared expert, a UE8M0 for every block x block.
void add_fp8(Tensors& t, const std::string& at, int64_t rows, int64_t cols, int64_t block) {
  t.push_back({at + "weight", Dtype::kE4m3, {rows, cols}, e4m3_weight_fill(), {}});
  t.push_back({at + "scale",
               Dtype::kUe8m0,
               {ceil_div(rows, block), ceil_div(cols, block)},
               ue8m0_fill(kE4m3WeightRms, cols),
               {}});
}

struct Matrix {
  std::string_view name;
  int64_t rows, cols;
};

Tensors deepseek_layer(const SynthSizes& s, int64_t layer, int64_t fp8_block) {
  Tensors t;
  const std::string at = fmt::format("layers.{}.ffn.", layer);
  const Matrix matrices[] = {{"w1", s.intermediate, s.hidden},
                             {"w2", s.hidden, s.intermediate},
                             {"w3", s.intermediate, s.hidden}};
  t.push_back(
      {at + "gate.weight", Dtype::kBf16, {s.experts, s.hidden}, normal(unit_row(s.hidden)), {}});
  for (int64_t e = 0; e < s.experts; ++e) {
    for (const auto& [name, rows, cols] : matrices) {
      const std::string w = fmt::format("{}experts.{}.{}.", at, e, name);
      add_mxfp4(t, w + "weight", w + "scale", Dtype::kI8, Dtype::kUe8m0, {rows, cols / 2},
                {rows, cols / kMxBlock});
    }
  }
  for (const auto& [name, rows, cols] : matrices)
    add_fp8(t, fmt::format("{}shared_experts.{}.", at, name), rows, cols, fp8_block);
  return t;
}

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

constexpr double kBiasSpread = 0.1;  // scores are around 0.8 with a deviation of 0.3

Tensors v4_layer(const SynthPreset& p, const SynthSizes& s, int64_t layer) {
  Tensors t = deepseek_layer(s, layer, 128);
  const std::string at = fmt::format("layers.{}.ffn.gate.", layer);
  if (layer < kHashLayers) {
    t.insert(t.begin() + 1, {at + "tid2eid",
                             Dtype::kI32,
                             {kVocab, p.top_k},
                             {.kind = Kind::kIds, .below = s.experts},
                             {}});
  } else {
    t.insert(t.begin() + 1, {at + "bias", Dtype::kF32, {s.experts}, normal(kBiasSpread), {}});
  }
  return t;
}

std::vector<SynthText> v4_texts(const SynthPreset& p, const SynthSizes& s) {
  Json config = {{"model_type", "deepseek_v4"}, {"architectures", {"DeepseekV4ForCausalLM"}}};
  config.update(deepseek_text(p, s, kHashLayers));
  config["quantization_config"] = deepseek_quantization(128);
  return config_text(config);
}

Tensors v41_layer(const SynthPreset&, const SynthSizes& s, int64_t layer) {
  Tensors t = deepseek_layer(s, layer, 32);
  for (const char* bias : {"bias_vl", "bias"}) {
    t.insert(t.begin() + 1, {fmt::format("layers.{}.ffn.gate.{}", layer, bias),
                             Dtype::kF32,
                             {s.experts},
                             normal(kBiasSpread),
                             {}});
  }
  return t;
}

std::vector<SynthText> v41_texts(const SynthPreset& p, const SynthSizes& s) {
  Json quantization = deepseek_quantization(32);
  quantization["expert_dtype"] = "fp4";
  return config_text({{"model_type", "deepseek_v41"},
                      {"architectures", {"DeepseekV41ForConditionalGeneration"}},
                      {"text_config", deepseek_text(p, s, 0)},
                      {"vision_config", {{"num_hidden_layers", kVisionLayers}}},
                      {"quantization_config", quantization}});
}

// ---- gpt-oss

Tensors gpt_oss_layer(const SynthPreset&, const SynthSizes& s, int64_t layer) {
  Tensors t;
  const int64_t e = s.experts, h = s.hidden, i = s.intermediate;
  const std::string at = fmt::format("model.layers.{}.mlp.", layer), x = at + "experts.";
  t.push_back({at + "router.weight", Dtype::kBf16, {e, h}, normal(unit_row(h)), {}});
  t.push_back({at + "router.bias", Dtype::kBf16, {e}, normal(0.5), {}});
  for (const auto& [name, rows, cols] :
       {Matrix{"gate_up_proj", 2 * i, h}, Matrix{"down_proj", h, i}}) {
    const std::string w = fmt::format("{}{}_", x, name);
    const int64_t groups = cols / kMxBlock;
    add_mxfp4(t, w + "blocks", w + "scales", Dtype::kU8, Dtype::kU8,
              {e, rows, groups, kMxBlock / 2}, {e, rows, groups});
    t.push_back({w + "bias", Dtype::kBf16, {e, rows}, normal(0.2), {}});
  }
  return t;
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

// ---- Flint as ModelOpt writes it

Tensors modelopt_layer(const SynthPreset&, const SynthSizes& s, int64_t layer) {
  Tensors t;
  const int64_t h = s.hidden, i = s.intermediate;
  const std::string at = fmt::format("model.layers.{}.mlp.", layer);
  t.push_back({at + "gate.weight", Dtype::kBf16, {s.experts, h}, normal(unit_row(h)), {}});
  for (int64_t e = 0; e < s.experts; ++e) {
    // Gate and up share their factors: ModelOpt unifies those of layers that are fused.
    const std::string expert = fmt::format("{}experts.{}.", at, e), fused = expert + "gate_up";
    for (const auto& [name, rows, cols] :
         {Matrix{"gate", i, h}, Matrix{"up", i, h}, Matrix{"down", h, i}}) {
      const std::string w = fmt::format("{}{}_proj.", expert, name);
      const std::string key = name == "down" ? w : fused;
      t.push_back({w + "weight", Dtype::kU8, {rows, cols / 2}, {}, {}});
      t.push_back(
          {w + "weight_scale", Dtype::kE4m3, {rows, cols / kNvBlock}, e4m3_scale_fill(), {}});
      t.push_back({w + "weight_scale_2", Dtype::kF32, {}, e4m3_factor_fill(cols), key + "weight"});
      t.push_back({w + "input_scale",
                   Dtype::kF32,
                   {},
                   {.kind = Kind::kUniform, .centre = 4.0 / 2688},
                   key + "input"});
    }
  }
  return t;
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

//                                       layers experts hidden intermediate   k  block
constexpr SynthPreset kPresets[] = {
    {"deepseek-v4.1-flash", {1, 384, 5120, 2304}, 6, kMxBlock, v41_layer, v41_texts},  // of 40
    {"deepseek-v4-flash", {1, 256, 4096, 2048}, 6, kMxBlock, v4_layer, v4_texts},      // of 43
    {"gpt-oss-20b", {1, 32, 2880, 2880}, 4, kMxBlock, gpt_oss_layer, gpt_oss_texts},   // of 24
    {"flint-modelopt", {1, 256, 2048, 512}, 6, kNvBlock, modelopt_layer, modelopt_texts},
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
  for (const std::string_view not_built : kNotBuilt) {
    if (not_built == name) {
      return unsupported(
          fmt::format("preset {} is not built yet, only {}", name, fmt::join(names, ", ")));
    }
    names.push_back(not_built);
  }
  std::string hint = did_you_mean(name, names);
  if (hint.empty()) hint = fmt::format("; there are {}", fmt::join(names, ", "));
  return misuse(fmt::format("no preset is called \"{}\"{}", name, hint));
}

}  // namespace octet::checkpoint
