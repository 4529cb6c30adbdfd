// SPDX-License-Identifier: Apache-2.0
// What is refused, in which words, and tensors at odd addresses.
#include "checkpoint/model.h"

#include <fstream>
#include <functional>
#include <string>

#include "checkpoint/format.h"
#include "checkpoint/model_testing.h"
#include "checkpoint/shard.h"

namespace octet::checkpoint {
namespace {

namespace fs = std::filesystem;
using Edit = std::function<void(SmallCheckpoint&)>;

// Layer 3 of the checkpoint after `edit`.
Status load_edited(SmallCheckpoint c, const Edit& edit, const LoadOptions& options = {}) {
  const TestFolder folder;
  edit(c);
  c.write(folder.path());
  return load_layer(folder.path(), 3, options).status();
}
Status load_configured(SmallCheckpoint c, const std::string& key, const nlohmann::json& value) {
  return load_edited(std::move(c), [&](SmallCheckpoint& e) { e.config[key] = value; });
}

TEST(Model, RefusesFormatsThatAreNotBuiltByName) {
  const std::string built = "is not built yet; built: deepseek_v4, gpt_oss, modelopt, packed";
  const TestFolder folder;
  write_text(folder.path() / "m.gguf", "GGUF\3");
  EXPECT_SAYS(Model::open(folder.path()).status(), "format gguf " + built);
  EXPECT_SAYS(Model::open(folder.path() / "m.gguf").status(), "format gguf " + built);
  write_text(folder.path() / "m.bin", "PK\3\4");
  EXPECT_SAYS(Model::open(folder.path() / "m.bin").status(), "format pytorch " + built);
  EXPECT_SAYS(Model::open(folder.path() / "none").status(), "no such file or folder");
  EXPECT_EQ(Model::open(folder.path()).status().code, Code::kUnsupported);
  EXPECT_SAYS(load_configured(small_modelopt(), "quantization_config",
                              {{"quant_method", "compressed-tensors"}}),
              "format compressed-tensors " + built);
  EXPECT_SAYS(load_edited(small_gpt_oss(),
                          [](SmallCheckpoint& c) {
                            c.add("block.0.mlp.mlp1_weight.blocks", Dtype::kU8, {1});
                          }),
              "format gpt-oss with its original names (block.N.mlp) " + built);
  EXPECT_SAYS(load_edited(small_deepseek(),
                          [](SmallCheckpoint& c) {
                            c.config = {{"model_type", "llama4"}};
                          }),
              "format of model_type llama4 with quant_method none " + built);
  EXPECT_SAYS(load_configured(small_modelopt(), "model_type", "mixtral"),
              "the router of model_type mixtral is not built yet");
}

TEST(Model, WantsAConfiguration) {
  const TestFolder folder;
  SmallCheckpoint c = small_deepseek();
  c.config = nullptr;
  c.write(folder.path());
  EXPECT_SAYS(Model::open(folder.path() / "model.safetensors").status(),
              "model.safetensors: no config.json beside the tensors, wanted one");
  small_deepseek().write(folder.path());
  EXPECT_TRUE(Model::open(folder.path() / "model.safetensors").ok());
  EXPECT_SAYS(Model::open(folder.path() / "none").status(), "none: no such file");
  write_text(folder.path() / "config.json", "{\"model_type\":");
  EXPECT_SAYS(Model::open(folder.path()).status(), "config.json: not JSON at byte");
}

TEST(Model, RefusesConfigurationsByKeyAndValue) {
  struct Row {
    const char* key;
    nlohmann::json value;
    const char* words;
  };
  const Row rows[] = {
      {"scoring_func", "softmax", "scoring_func softmax is not built yet, wanted sqrtsoftplus"},
      {"norm_topk_prob", false, "norm_topk_prob false is not built yet, wanted true"},
      {"topk_method", "greedy", "topk_method greedy is not built yet, wanted noaux_tc"},
      {"expert_dtype", "fp8", "expert_dtype fp8 is not built yet, wanted fp4"},
      {"hidden_size", 80, "hidden 80 is not a multiple of 32"},
      {"moe_intermediate_size", 48, "intermediate 48 is not a multiple of 32"},
      {"hidden_size", "big", "hidden_size \"big\", wanted an integer in 1 ... 1048576"},
      {"n_routed_experts", 3, "3 experts, wanted at least the 4 of a token"},
      {"n_routed_experts", 1000000000,
       "n_routed_experts 1000000000, wanted an integer in 1 ... 16384"},
      {"n_routed_experts", 513, "513 experts, wanted at most 512 for the router dsv4"},
      {"num_experts_per_tok", 9, "9 experts a token, wanted 1 ... 8"},
      {"num_experts_per_tok", 0, "num_experts_per_tok 0, wanted an integer"},
      {"routed_scaling_factor", -1.5, "routed_scaling_factor -1.5, wanted a positive"},
      {"swiglu_limit", -1, "swiglu_limit -1, wanted a positive"},
      {"swiglu_limit", 1e60, "swiglu_limit 1e+60, wanted a positive"},
  };
  for (const Row& row : rows)
    EXPECT_SAYS(load_configured(small_deepseek(), row.key, row.value), row.words);
  EXPECT_SAYS(load_configured(small_modelopt(), "norm_topk_prob", false), "norm_topk_prob false");
  EXPECT_SAYS(load_configured(small_modelopt(), "norm_topk_prob", nullptr), "norm_topk_prob false");
  EXPECT_SAYS(load_configured(small_modelopt(), "moe_intermediate_size", 40),
              "intermediate 40 is not a multiple of 16");
  EXPECT_SAYS(
      load_edited(small_modelopt(),
                  [](SmallCheckpoint& c) { c.config["quantization_config"]["group_size"] = 32; }),
      "group_size 32 is not built, wanted 16");
}

TEST(Model, RefusesTensorsByName) {
  const std::string w1 = "layers.3.ffn.experts.5.w1.weight";
  EXPECT_SAYS(load_edited(small_deepseek(), [&](SmallCheckpoint& c) { c.tensors.erase(w1); }),
              "tensor " + w1 + " is missing");
  EXPECT_SAYS(load_edited(small_deepseek(),
                          [&](SmallCheckpoint& c) {
                            c.add(w1, Dtype::kU8, {96, 32});
                          }),
              "tensor " + w1 + ": dtype U8, wanted I8");
  EXPECT_SAYS(load_edited(small_deepseek(),
                          [&](SmallCheckpoint& c) {
                            c.add(w1, Dtype::kI8, {32, 96});
                          }),
              "tensor " + w1 + ": shape [32, 96], wanted [96, 32]");
  EXPECT_SAYS(load_edited(small_deepseek(),
                          [](SmallCheckpoint& c) {
                            c.add("layers.3.ffn.gate.weight", Dtype::kF16, {8, 64});
                          }),
              "dtype F16, wanted BF16 or F32");
  EXPECT_SAYS(load_configured(small_deepseek(), "vision_n_layers", 1),
              "tensor layers.3.ffn.gate.bias_vl is missing");
  EXPECT_SAYS(load_configured(small_deepseek(), "num_hash_layers", 4),
              "tensor layers.3.ffn.gate.tid2eid is missing");
  EXPECT_SAYS(load_edited(small_gpt_oss(),
                          [](SmallCheckpoint& c) {
                            c.tensors.erase("model.layers.3.mlp.experts.down_proj_bias");
                          }),
              "tensor model.layers.3.mlp.experts.down_proj_bias is missing");
}

TEST(Model, NamesTheLayersThereAre) {
  const TestFolder folder;
  SmallCheckpoint c = small_deepseek();
  for (const int layer : {5, 6, 7, 11})
    c.add(fmt::format("layers.{}.ffn.experts.0.w1.weight", layer), Dtype::kI8, {1});
  c.write(folder.path());
  EXPECT_SAYS(load_layer(folder.path(), 4).status(),
              "layer 4 has no routed experts, wanted one of 3, 5 ... 7, 11");
  const TestFolder other;
  c.tensors.clear();
  c.add("embed.weight", Dtype::kU8, {1});
  c.write(other.path());
  EXPECT_SAYS(Model::open(other.path()).status(), "no tensors of routed experts");
}

TEST(Model, CopiesRouterTensorsThatAreNotAligned) {
  const TestFolder folder;
  const SmallCheckpoint c = small_gpt_oss();
  c.write(folder.path());
  // One byte in front of all data: every offset odd.
  const std::string bytes = read_text(folder.path() / "model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  auto header = nlohmann::json::parse(bytes.substr(8, length));
  for (auto& entry : header) {
    for (auto& offset : entry["data_offsets"]) offset = offset.get<int64_t>() + 1;
  }
  const std::string text = header.dump() + std::string((8 - header.dump().size() % 8) % 8, ' ');
  length = text.size();
  std::string moved(reinterpret_cast<const char*>(&length), 8);
  moved += text + "\xFF" +
           bytes.substr(bytes.size() -
                        (bytes.size() - 8 -
                         static_cast<size_t>(*reinterpret_cast<const uint64_t*>(bytes.data()))));
  write_text(folder.path() / "model.safetensors", moved);
  const auto layer = load_layer(folder.path(), 3, {.shard = {1, 2, 0, 1}});
  ASSERT_TRUE(layer.ok()) << layer.status().why;
  const Tensor& weight = c.tensors.at("model.layers.3.mlp.router.weight");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(layer->gate.weight.data) % 2, 0U);
  EXPECT_EQ(std::memcmp(layer->gate.weight.data, weight.data(), weight.num_bytes()), 0);
  const auto* bias = c.tensors.at("model.layers.3.mlp.experts.gate_up_proj_bias").as<Bf16>();
  EXPECT_EQ(layer->experts[2].up_bias.data[3 * 2], bias[2 * 192 + 2 * (48 + 3) + 1]);
}

TEST(Shard, RefusesCutsThatDoNotDivide) {
  LayerSpec spec;
  spec.intermediate = 2304;
  spec.experts = 384;
  EXPECT_SAYS(check_shard(spec, {0, 5, 0, 1}), "intermediate 2304 is not a multiple of tp 5");
  EXPECT_SAYS(check_shard(spec, {0, 1, 0, 5}), "experts 384 is not a multiple of ep 5");
  EXPECT_SAYS(check_shard(spec, {4, 4, 0, 1}), "tp rank 4, wanted 0 ... 3");
  EXPECT_SAYS(check_shard(spec, {0, 1, -1, 2}), "ep rank -1, wanted 0 ... 1");
  EXPECT_SAYS(check_shard(spec, {0, 0, 0, 1}), "tp of 0 ranks");
  EXPECT_SAYS(check_shard(spec, {0, 192, 0, 1}),
              "intermediate 2304 over tp 192 is 12 columns a rank, wanted at least 16");
  EXPECT_TRUE(check_shard(spec, {143, 144, 383, 384}).ok());
}

}  // namespace
}  // namespace octet::checkpoint
