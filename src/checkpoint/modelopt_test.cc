// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/modelopt.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/model_testing.h"

namespace octet::checkpoint {
namespace {

Truth modelopt_truth(const SmallCheckpoint& c, const SmallSizes& s) {
  const auto name = [s](int64_t e, int m, const char* what) {
    constexpr const char* kNames[] = {"gate", "up", "down"};
    return fmt::format("model.layers.{}.mlp.experts.{}.{}_proj.weight{}", s.layer, e, kNames[m],
                       what);
  };
  const auto cols = [s](int m) { return m == 2 ? s.intermediate : s.hidden; };
  return {.code =
              [&c, name, cols](int64_t e, int m, int64_t row, int64_t col) {
                return code_at(c.tensors.at(name(e, m, "")), cols(m), row, col);
              },
          .scale =
              [&c, name, cols](int64_t e, int m, int64_t row, int64_t col) {
                return byte_at(c.tensors.at(name(e, m, "_scale")), row * (cols(m) / 16) + col / 16);
              }};
}

TEST(Modelopt, ReadsEveryWeightAndFactorWholeAndCut) {
  SmallSizes s;
  s.intermediate = 80;
  const SmallCheckpoint c = small_modelopt(s);
  const TestFolder folder;
  c.write(folder.path());
  const Shard shards[] = {
      {}, {1, 2, 0, 1}, {4, 5, 0, 1}, {0, 2, 1, 2}};  // 40 columns: half a block of 16
  for (const Shard& shard : shards) {
    const auto layer = load_layer(folder.path(), s.layer, {.shard = shard});
    ASSERT_TRUE(layer.ok()) << layer.status().why;
    expect_weights(*layer, modelopt_truth(c, s), {s, shard});
    for (int64_t e = 0; e < layer->spec.local_experts; ++e) {
      const layouts::ExpertWeights& w = layer->experts[static_cast<size_t>(e)];
      const float base = 0.25F + static_cast<float>(e + layer->spec.first_expert);
      EXPECT_EQ(w.gate_alpha, base);
      EXPECT_EQ(w.up_alpha, base + 0.125F);
      EXPECT_EQ(w.down_alpha, base + 0.25F);
    }
  }
}

TEST(Modelopt, ReadsRouters) {
  struct Row {
    const char* model_type;
    RouterKind kind;
  };
  for (const Row& row :
       {Row{"qwen3_moe", RouterKind::kSoftmax}, Row{"flint", RouterKind::kFlint},
        Row{"deepseek_v3", RouterKind::kDeepseekV3}, Row{"kimi_k2", RouterKind::kDeepseekV3}}) {
    SmallCheckpoint c = small_modelopt();
    c.config["model_type"] = row.model_type;
    const bool is_v3 = row.kind == RouterKind::kDeepseekV3;
    if (is_v3) {
      c.config.erase("num_experts");
      c.config.update({{"n_routed_experts", 8},
                       {"n_group", 4},
                       {"topk_group", 2},
                       {"routed_scaling_factor", 2.5}});
      c.add("model.layers.3.mlp.gate.e_score_correction_bias", Dtype::kF32, {8});
    }
    const TestFolder folder;
    c.write(folder.path());
    const auto layer = load_layer(folder.path(), 3);
    ASSERT_TRUE(layer.ok()) << layer.status().why;
    EXPECT_EQ(layer->spec.router.kind, row.kind);
    EXPECT_EQ(layer->spec.weights, WeightFormat::kNvfp4);
    EXPECT_EQ(layer->spec.activations, Activations::kBf16);
    EXPECT_EQ(layer->spec.swiglu.limit, std::numeric_limits<float>::max());
    EXPECT_EQ(layer->spec.router.groups, is_v3 ? 4 : 1);
    EXPECT_EQ(layer->spec.router.groups_kept, is_v3 ? 2 : 1);
    EXPECT_EQ(layer->spec.router.scale, is_v3 ? 2.5F : 1.0F);
    EXPECT_EQ(layer->gate.bias.data != nullptr, is_v3);
    EXPECT_TRUE(same_bytes(layer->gate.weight, c.tensors.at("model.layers.3.mlp.gate.weight")));
  }
}

TEST(Modelopt, RefusesFactorsThatAreNoFactors) {
  const std::string name = "model.layers.3.mlp.experts.5.up_proj.weight_scale_2";
  const std::pair<float, const char*> bad[] = {{0.0F, "0"},
                                               {-0.5F, "-0.5"},
                                               {std::numeric_limits<float>::infinity(), "inf"},
                                               {std::numeric_limits<float>::quiet_NaN(), "nan"}};
  for (const auto& [value, text] : bad) {
    SmallCheckpoint c = small_modelopt();
    *c.tensors.at(name).as<float>() = value;
    const TestFolder folder;
    c.write(folder.path());
    EXPECT_SAYS(load_layer(folder.path(), 3).status(),
                fmt::format("tensor {}: {}, wanted a finite positive factor", name, text));
  }
}

TEST(Modelopt, TakesFactorsOfOneElement) {
  SmallCheckpoint c = small_modelopt();
  *c.add("model.layers.3.mlp.experts.5.up_proj.weight_scale_2", Dtype::kF32, {1}).as<float>() = 3;
  const TestFolder folder;
  c.write(folder.path());
  const auto layer = load_layer(folder.path(), 3);
  ASSERT_TRUE(layer.ok()) << layer.status().why;
  EXPECT_EQ(layer->experts[5].up_alpha, 3.0F);
}

TEST(Modelopt, AlgorithmStandsInEitherFile) {
  SmallCheckpoint c = small_modelopt();
  c.config.erase("quantization_config");
  const TestFolder folder;
  c.write(folder.path());
  EXPECT_TRUE(load_layer(folder.path(), 3).ok());
  c.quant_config["quantization"]["quant_algo"] = "W4A16_NVFP4";
  c.write(folder.path());
  EXPECT_TRUE(load_layer(folder.path(), 3).ok());
  c.quant_config["quantization"]["quant_algo"] = "FP8";
  c.write(folder.path());
  EXPECT_SAYS(Model::open(folder.path()).status(), "quant_algo FP8 is not built yet");
  c.config["quantization_config"] = {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}};
  c.write(folder.path());
  EXPECT_SAYS(Model::open(folder.path()).status(),
              "NVFP4 in config.json, FP8 in hf_quant_config.json");
}

TEST(Modelopt, MixedPrecisionTakesTheNvfp4Layers) {
  SmallCheckpoint c = small_modelopt();
  c.add("model.layers.4.mlp.experts.0.gate_proj.weight", Dtype::kE4m3, {96, 64});
  c.config["quantization_config"]["quant_algo"] = "MIXED_PRECISION";
  c.quant_config["quantization"]["quant_algo"] = "MIXED_PRECISION";
  const TestFolder folder;
  c.write(folder.path());
  const auto model = Model::open(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().why;
  EXPECT_EQ(model->layers(), std::vector<int64_t>{3});
}

}  // namespace
}  // namespace octet::checkpoint
