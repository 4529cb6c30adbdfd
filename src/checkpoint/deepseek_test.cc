// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepseek.h"

#include <limits>
#include <string>
#include <vector>

#include "checkpoint/model_testing.h"

namespace octet::checkpoint {
namespace {

Truth deepseek_truth(const SmallCheckpoint& c, const SmallSizes& s) {
  const auto name = [s](int64_t e, int m, const char* what) {
    constexpr const char* kNames[] = {"w1", "w3", "w2"};
    return fmt::format("layers.{}.ffn.experts.{}.{}.{}", s.layer, e, kNames[m], what);
  };
  const auto cols = [s](int m) { return m == 2 ? s.intermediate : s.hidden; };
  return {.code =
              [&c, name, cols](int64_t e, int m, int64_t row, int64_t col) {
                return code_at(c.tensors.at(name(e, m, "weight")), cols(m), row, col);
              },
          .scale =
              [&c, name, cols](int64_t e, int m, int64_t row, int64_t col) {
                return byte_at(c.tensors.at(name(e, m, "scale")), row * (cols(m) / 32) + col / 32);
              }};
}

TEST(Deepseek, ReadsEveryWeightWholeAndCut) {
  const SmallSizes s;
  const SmallCheckpoint c = small_deepseek(s);
  const TestFolder folder;
  c.write(folder.path());
  for (const Shard& shard : kShards) {
    const auto layer = load_layer(folder.path(), s.layer, {.shard = shard});
    ASSERT_TRUE(layer.ok()) << layer.status().why;
    expect_weights(*layer, deepseek_truth(c, s), {s, shard});
  }
}

// The layer's tensors under another name.
SmallCheckpoint renamed(SmallCheckpoint c, const std::string& from, const std::string& to) {
  NamedTensors tensors;
  for (auto& [name, tensor] : c.tensors) {
    tensors[name.starts_with(from) ? to + name.substr(from.size()) : name] = std::move(tensor);
  }
  c.tensors = std::move(tensors);
  return c;
}

TEST(Deepseek, LayersForMultiTokenPredictionAreCountedOn) {
  const SmallSizes s;
  const SmallCheckpoint own = small_deepseek(s);
  SmallCheckpoint c = renamed(small_deepseek(s), "layers.3.", "mtp.1.");
  for (const auto& [name, tensor] : own.tensors) c.tensors[name] = copy_of(tensor.view());
  const TestFolder folder;
  const auto open = [&] {
    c.write(folder.path());
    return Model::open(folder.path());
  };
  c.config["num_hash_layers"] = 0;
  auto model = open();
  ASSERT_TRUE(model.ok()) << model.status().why;
  EXPECT_EQ(model->layers(), (std::vector<int64_t>{3, 5}));  // after layer 3: mtp.0 is 4, mtp.1 5
  EXPECT_EQ(model->layer_name(3), "layers.3");
  EXPECT_EQ(model->layer_name(5), "mtp.1");

  c.config["num_hidden_layers"] = 43;
  c.config["num_hash_layers"] = 44;  // a layer for prediction has a bias, no table
  c.config["vision_n_layers"] = 1;   // and need not have one for images
  model = open();
  ASSERT_TRUE(model.ok()) << model.status().why;
  EXPECT_EQ(model->layers(), (std::vector<int64_t>{3, 44}));
  EXPECT_EQ(model->layer_name(44), "mtp.1");
  const auto layer = model->layer(44, {});
  ASSERT_TRUE(layer.ok()) << layer.status().why;
  EXPECT_EQ(layer->spec.router.kind, RouterKind::kDsv4);
  EXPECT_TRUE(same_bytes(layer->gate.bias, c.tensors.at("mtp.1.ffn.gate.bias")));
  EXPECT_EQ(layer->gate.bias_vl.data, nullptr);
  expect_weights(*layer, deepseek_truth(own, s), {s, {}});
}

TEST(Deepseek, ReadsRouterAndActivation) {
  const SmallSizes s;
  const SmallCheckpoint c = small_deepseek(s);
  const TestFolder folder;
  c.write(folder.path());
  const auto model = Model::open(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().why;
  EXPECT_EQ(model->format(), "deepseek_v4");
  EXPECT_EQ(model->model_type(), "deepseek_v4");
  EXPECT_EQ(model->layers(), std::vector<int64_t>{3});
  const auto layer = model->layer(3, {});
  ASSERT_TRUE(layer.ok()) << layer.status().why;
  const LayerSpec& spec = layer->spec;
  EXPECT_EQ(spec.weights, WeightFormat::kMxfp4);
  EXPECT_EQ(spec.activations, Activations::kMxfp8);
  EXPECT_EQ(spec.router.kind, RouterKind::kDsv4);
  EXPECT_EQ(spec.router.top_k, 4);
  EXPECT_EQ(spec.router.scale, 1.5F);
  EXPECT_EQ(spec.router.image_sentinel_lo, 0);
  EXPECT_EQ(spec.swiglu.limit, 10.0F);
  EXPECT_EQ(spec.swiglu.alpha, 1.0F);
  EXPECT_EQ(spec.swiglu.beta, 0.0F);
  EXPECT_EQ(layer->experts[0].limit, 10.0F);
  EXPECT_FALSE(spec.has_shared_experts);
  EXPECT_TRUE(same_bytes(layer->gate.weight, c.tensors.at("layers.3.ffn.gate.weight")));
  EXPECT_TRUE(same_bytes(layer->gate.bias, c.tensors.at("layers.3.ffn.gate.bias")));
  EXPECT_EQ(layer->gate.bias_vl.data, nullptr);
  EXPECT_EQ(layer->gate.table.data, nullptr);
  EXPECT_EQ(layer->gate.logit_bias.data, nullptr);
}

TEST(Deepseek, DefaultsAreScaleOneAndNoLimit) {
  SmallCheckpoint c = small_deepseek();
  for (const char* key :
       {"routed_scaling_factor", "swiglu_limit", "scoring_func", "topk_method", "norm_topk_prob",
        "n_shared_experts", "num_hash_layers", "expert_dtype"}) {
    c.config.erase(key);
  }
  const TestFolder folder;
  c.write(folder.path());
  const auto layer = load_layer(folder.path(), 3);
  ASSERT_TRUE(layer.ok()) << layer.status().why;
  EXPECT_EQ(layer->spec.router.scale, 1.0F);
  EXPECT_EQ(layer->spec.swiglu.limit, std::numeric_limits<float>::max());
}

TEST(Deepseek, OptionsOverrideActivationsPrecisionAndSentinel) {
  const TestFolder folder;
  small_deepseek().write(folder.path());
  const auto layer = load_layer(folder.path(), 3,
                                {.activations = Activations::kBf16,
                                 .precision = Precision::kExact,
                                 .image_sentinel_lo = 4000});
  ASSERT_TRUE(layer.ok()) << layer.status().why;
  EXPECT_EQ(layer->spec.activations, Activations::kBf16);
  EXPECT_EQ(layer->spec.precision, Precision::kExact);
  EXPECT_EQ(layer->spec.router.image_sentinel_lo, 4000);
}

// bias_vl beside the layer's bias.
SmallCheckpoint with_bias_vl(SmallCheckpoint c) {
  c.add("layers.3.ffn.gate.bias_vl", Dtype::kF32, {8});
  return c;
}

TEST(Deepseek, VisionLayersTurnImageRoutingOn) {
  SmallCheckpoint c = with_bias_vl(small_deepseek());
  for (const int num_layers : {0, 2}) {
    c.config["vision_config"] = {{"num_hidden_layers", num_layers}};
    const TestFolder folder;
    c.write(folder.path());
    const auto layer = load_layer(folder.path(), 3);
    ASSERT_TRUE(layer.ok()) << layer.status().why;
    EXPECT_EQ(layer->spec.router.image_sentinel_lo, num_layers ? 129257 : 0);
    EXPECT_EQ(layer->gate.bias_vl.data != nullptr, num_layers > 0);
  }
  c.config.erase("vision_config");
  c.config["vision_n_layers"] = 1;
  const TestFolder folder;
  c.write(folder.path());
  const auto layer = load_layer(folder.path(), 3);
  ASSERT_TRUE(layer.ok()) << layer.status().why;
  EXPECT_TRUE(same_bytes(layer->gate.bias_vl, c.tensors.at("layers.3.ffn.gate.bias_vl")));
}

TEST(Deepseek, V41NestsItsTextKeys) {
  SmallCheckpoint c = with_bias_vl(small_deepseek());
  nlohmann::json text = c.config;
  text.erase("model_type");
  text.erase("quantization_config");
  text.erase("expert_dtype");
  c.config = {{"model_type", "deepseek_v41"},
              {"quantization_config", {{"quant_method", "fp8"}, {"expert_dtype", "fp4"}}},
              {"text_config", text},
              {"vision_config", {{"num_hidden_layers", 24}}}};
  const TestFolder folder;
  c.write(folder.path());
  const auto layer = load_layer(folder.path(), 3);
  ASSERT_TRUE(layer.ok()) << layer.status().why;
  EXPECT_EQ(layer->spec.router.image_sentinel_lo, 129264);
  EXPECT_EQ(layer->spec.activations, Activations::kMxfp8);
  expect_weights(*layer, deepseek_truth(c, {}), {{}, {}});
  c.config["quantization_config"]["expert_dtype"] = "fp8";
  c.write(folder.path());
  EXPECT_SAYS(load_layer(folder.path(), 3).status(), "expert_dtype fp8 is not built yet");
}

// Layer 3 among the hash layers: a table of 20 tokens instead of the bias.
SmallCheckpoint small_hash(const std::string& spelling) {
  SmallCheckpoint c = small_deepseek();
  c.config["num_hash_layers"] = 4;
  c.tensors.erase("layers.3.ffn.gate.bias");
  Tensor& table = c.add("layers.3.ffn.gate." + spelling, Dtype::kI32, {20, 4});
  for (int i = 0; i < 80; ++i) table.as<int32_t>()[i] = i * 3 % 8;
  return c;
}

TEST(Deepseek, HashLayersHaveATableOfEitherSpelling) {
  for (const char* spelling : {"tid2eid", "tie2eid"}) {
    const SmallCheckpoint c = small_hash(spelling);
    const TestFolder folder;
    c.write(folder.path());
    const auto layer = load_layer(folder.path(), 3);
    ASSERT_TRUE(layer.ok()) << layer.status().why;
    EXPECT_EQ(layer->spec.router.kind, RouterKind::kHash);
    EXPECT_EQ(layer->gate.bias.data, nullptr);
    EXPECT_TRUE(
        same_bytes(layer->gate.table, c.tensors.at(std::string("layers.3.ffn.gate.") + spelling)));
  }
}

TEST(Deepseek, HashLayersOfVisionCheckpointsHaveBiasVlToo) {
  SmallCheckpoint c = with_bias_vl(small_hash("tid2eid"));
  c.config["vision_n_layers"] = 3;
  const TestFolder folder;
  c.write(folder.path());
  const auto layer = load_layer(folder.path(), 3);
  ASSERT_TRUE(layer.ok()) << layer.status().why;
  EXPECT_EQ(layer->spec.router.kind, RouterKind::kHash);
  EXPECT_EQ(layer->spec.router.image_sentinel_lo, 129257);
  EXPECT_NE(layer->gate.bias_vl.data, nullptr);
  EXPECT_NE(layer->gate.table.data, nullptr);
}

TEST(Deepseek, RefusesTableIdsThatAreNoExperts) {
  for (const int bad : {-1, 8}) {
    SmallCheckpoint c = small_hash("tid2eid");
    c.tensors.at("layers.3.ffn.gate.tid2eid").as<int32_t>()[4 * 7 + 2] = bad;
    const TestFolder folder;
    c.write(folder.path());
    EXPECT_SAYS(
        load_layer(folder.path(), 3).status(),
        fmt::format("tensor layers.3.ffn.gate.tid2eid: id {} at row 7, column 2, wanted 0 ... 7",
                    bad));
  }
}

TEST(Deepseek, SaysWhenThereAreSharedExpertsAndIsNotDisturbedByMtpLayers) {
  SmallCheckpoint c = small_deepseek();
  c.add("layers.3.ffn.shared_experts.w1.weight", Dtype::kE4m3, {96, 64});
  c.add("mtp.0.ffn.experts.0.w1.weight", Dtype::kI8, {96, 32});
  const TestFolder folder;
  c.write(folder.path());
  EXPECT_FALSE(load_layer(folder.path(), 3)->spec.has_shared_experts);
  c.config["n_shared_experts"] = 1;
  c.write(folder.path());
  const auto model = Model::open(folder.path());
  EXPECT_TRUE(model->layer(3, {})->spec.has_shared_experts);
  EXPECT_EQ(model->layers(), std::vector<int64_t>{3});
}

}  // namespace
}  // namespace octet::checkpoint
