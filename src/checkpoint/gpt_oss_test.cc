// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/gpt_oss.h"

#include <string>

#include "checkpoint/model_testing.h"

namespace octet::checkpoint {
namespace {

Truth gpt_oss_truth(const SmallCheckpoint& c, const SmallSizes& s) {
  const auto at = [s](int64_t e, int m, int64_t row) {  // row of the stacked tensor
    return m == 2 ? e * s.hidden + row : e * 2 * s.intermediate + 2 * row + m;
  };
  const auto name = [s](int m, const char* what) {
    return fmt::format("model.layers.{}.mlp.experts.{}_proj_{}", s.layer,
                       m == 2 ? "down" : "gate_up", what);
  };
  const auto cols = [s](int m) { return m == 2 ? s.intermediate : s.hidden; };
  return {.code =
              [&c, at, name, cols](int64_t e, int m, int64_t row, int64_t col) {
                return code_at(c.tensors.at(name(m, "blocks")), cols(m), at(e, m, row), col);
              },
          .scale =
              [&c, at, name, cols](int64_t e, int m, int64_t row, int64_t col) {
                return byte_at(c.tensors.at(name(m, "scales")),
                               at(e, m, row) * (cols(m) / 32) + col / 32);
              }};
}

TEST(GptOss, ReadsEveryWeightAndBiasWholeAndCut) {
  const SmallSizes s;
  const SmallCheckpoint c = small_gpt_oss(s);
  const TestFolder folder;
  c.write(folder.path());
  const Tensor& gate_up = c.tensors.at("model.layers.3.mlp.experts.gate_up_proj_bias");
  const Tensor& down = c.tensors.at("model.layers.3.mlp.experts.down_proj_bias");
  for (const Shard& shard : kShards) {
    const auto layer = load_layer(folder.path(), s.layer, {.shard = shard});
    ASSERT_TRUE(layer.ok()) << layer.status().why;
    expect_weights(*layer, gpt_oss_truth(c, s), {s, shard});
    const int64_t width = s.intermediate / shard.tp_ranks;
    for (int64_t e = 0; e < layer->spec.local_experts; ++e) {
      const layouts::ExpertWeights& w = layer->experts[static_cast<size_t>(e)];
      const int64_t expert = e + layer->spec.first_expert;
      for (int64_t i = 0; i < width; ++i) {
        const Bf16* pair =
            gate_up.as<Bf16>() + expert * 2 * s.intermediate + 2 * (i + width * shard.tp_rank);
        ASSERT_EQ(w.gate_bias.data[i * w.gate_bias.stride], pair[0]);
        ASSERT_EQ(w.up_bias.data[i * w.up_bias.stride], pair[1]);
      }
      ASSERT_EQ(w.down_bias.data != nullptr, shard.tp_rank == 0);
      for (int64_t i = 0; i < s.hidden && shard.tp_rank == 0; ++i) {
        ASSERT_EQ(w.down_bias.data[i * w.down_bias.stride], down.as<Bf16>()[expert * s.hidden + i]);
      }
    }
  }
}

TEST(GptOss, ReadsRouterAndActivation) {
  SmallCheckpoint c = small_gpt_oss();
  const TestFolder folder;
  c.write(folder.path());
  auto layer = load_layer(folder.path(), 3);
  ASSERT_TRUE(layer.ok()) << layer.status().why;
  EXPECT_EQ(layer->spec.router.kind, RouterKind::kSoftmax);
  EXPECT_EQ(layer->spec.router.top_k, 4);
  EXPECT_EQ(layer->spec.activations, Activations::kBf16);
  EXPECT_EQ(layer->spec.swiglu.limit, 7.0F);
  EXPECT_EQ(layer->spec.swiglu.alpha, 1.702F);
  EXPECT_EQ(layer->spec.swiglu.beta, 1.0F);
  EXPECT_EQ(layer->gate.bias.data, nullptr);
  EXPECT_TRUE(same_bytes(layer->gate.weight, c.tensors.at("model.layers.3.mlp.router.weight")));
  EXPECT_TRUE(same_bytes(layer->gate.logit_bias, c.tensors.at("model.layers.3.mlp.router.bias")));
  c.config["swiglu_limit"] = 5.5;
  c.config.erase("num_experts_per_tok");
  c.config["experts_per_token"] = 2;
  c.write(folder.path());
  layer = load_layer(folder.path(), 3);
  ASSERT_TRUE(layer.ok()) << layer.status().why;
  EXPECT_EQ(layer->experts[0].limit, 5.5F);
  EXPECT_EQ(layer->spec.router.top_k, 2);
}

}  // namespace
}  // namespace octet::checkpoint
