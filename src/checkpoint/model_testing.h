// SPDX-License-Identifier: Apache-2.0
// For tests: small checkpoints with names, dtypes and shapes spelled out here, not taken from the formats' own plans, and a
// comparison of every element.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "checkpoint/model.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/synthetic_testing.h"
#include "core/tensor.h"

namespace octet::checkpoint {

struct SmallSizes {
  int64_t hidden = 64, intermediate = 96, experts = 8, top_k = 4, layer = 3;
};

// Tensors and configuration of a checkpoint, to be changed and then written.
struct SmallCheckpoint {
  nlohmann::json config, quant_config;
  NamedTensors tensors;
  uint64_t state = 1;

  uint8_t next_byte() {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<uint8_t>(state >> 56);
  }
  // Random bytes; numbers as BF16 or F32 are finite: bytes of a small exponent.
  Tensor& add(const std::string& name, Dtype dtype, Dims dims) {
    Tensor t(dtype, std::move(dims));
    for (size_t i = 0; i < t.num_bytes(); ++i) t.data()[i] = std::byte{next_byte()};
    if (dtype == Dtype::kF32 || dtype == Dtype::kBf16) {
      const size_t size = dtype_bytes(dtype);
      for (size_t i = size - 1; i < t.num_bytes(); i += size) t.data()[i] = std::byte{0x3C};
    }
    return tensors[name] = std::move(t);
  }
  void write(const std::filesystem::path& folder) const {
    NamedViews views;
    for (const auto& [name, tensor] : tensors) views.emplace(name, tensor.view());
    const Status saved = save_safetensors(folder / "model.safetensors", views);
    ASSERT_TRUE(saved.ok()) << saved.why;
    if (!config.is_null()) write_text(folder / "config.json", config.dump());
    if (!quant_config.is_null()) write_text(folder / "hf_quant_config.json", quant_config.dump());
  }
};

inline SmallCheckpoint small_deepseek(const SmallSizes& s = {}) {
  SmallCheckpoint c;
  c.config = {{"model_type", "deepseek_v4"},
              {"hidden_size", s.hidden},
              {"moe_intermediate_size", s.intermediate},
              {"n_routed_experts", s.experts},
              {"num_experts_per_tok", s.top_k},
              {"scoring_func", "sqrtsoftplus"},
              {"norm_topk_prob", true},
              {"routed_scaling_factor", 1.5},
              {"swiglu_limit", 10.0},
              {"n_shared_experts", 0},
              {"num_hash_layers", 0},
              {"topk_method", "noaux_tc"},
              {"vocab_size", 20},
              {"expert_dtype", "fp4"},
              {"quantization_config", {{"quant_method", "fp8"}}}};
  const std::string ffn = fmt::format("layers.{}.ffn.", s.layer);
  c.add(ffn + "gate.weight", Dtype::kBf16, {s.experts, s.hidden});
  c.add(ffn + "gate.bias", Dtype::kF32, {s.experts});
  for (int64_t e = 0; e < s.experts; ++e) {
    for (const char* w : {"w1", "w2", "w3"}) {
      const bool is_down = w[1] == '2';
      const int64_t rows = is_down ? s.hidden : s.intermediate;
      const int64_t cols = is_down ? s.intermediate : s.hidden;
      const std::string at = fmt::format("{}experts.{}.{}.", ffn, e, w);
      c.add(at + "weight", Dtype::kI8, {rows, cols / 2});
      c.add(at + "scale", Dtype::kUe8m0, {rows, cols / 32});
    }
  }
  return c;
}

inline SmallCheckpoint small_gpt_oss(const SmallSizes& s = {}) {
  SmallCheckpoint c;
  c.config = {{"model_type", "gpt_oss"},
              {"hidden_size", s.hidden},
              {"intermediate_size", s.intermediate},
              {"num_local_experts", s.experts},
              {"num_experts_per_tok", s.top_k},
              {"quantization_config", {{"quant_method", "mxfp4"}}}};
  const std::string mlp = fmt::format("model.layers.{}.mlp.", s.layer);
  c.add(mlp + "router.weight", Dtype::kBf16, {s.experts, s.hidden});
  c.add(mlp + "router.bias", Dtype::kBf16, {s.experts});
  const std::string x = mlp + "experts.";
  c.add(x + "gate_up_proj_blocks", Dtype::kU8, {s.experts, 2 * s.intermediate, s.hidden / 32, 16});
  c.add(x + "gate_up_proj_scales", Dtype::kU8, {s.experts, 2 * s.intermediate, s.hidden / 32});
  c.add(x + "gate_up_proj_bias", Dtype::kBf16, {s.experts, 2 * s.intermediate});
  c.add(x + "down_proj_blocks", Dtype::kU8, {s.experts, s.hidden, s.intermediate / 32, 16});
  c.add(x + "down_proj_scales", Dtype::kU8, {s.experts, s.hidden, s.intermediate / 32});
  c.add(x + "down_proj_bias", Dtype::kBf16, {s.experts, s.hidden});
  return c;
}

inline SmallCheckpoint small_modelopt(const SmallSizes& s = {}) {
  SmallCheckpoint c;
  c.config = {{"model_type", "qwen3_moe"},
              {"hidden_size", s.hidden},
              {"moe_intermediate_size", s.intermediate},
              {"num_experts", s.experts},
              {"num_experts_per_tok", s.top_k},
              {"norm_topk_prob", true},
              {"quantization_config",
               {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}, {"group_size", 16}}}};
  c.quant_config = {{"quantization", {{"quant_algo", "NVFP4"}, {"group_size", 16}}}};
  const std::string mlp = fmt::format("model.layers.{}.mlp.", s.layer);
  c.add(mlp + "gate.weight", Dtype::kBf16, {s.experts, s.hidden});
  for (int64_t e = 0; e < s.experts; ++e) {
    float factor = 0.25F + static_cast<float>(e);
    for (const char* w : {"gate", "up", "down"}) {
      const bool is_down = w[0] == 'd';
      const int64_t rows = is_down ? s.hidden : s.intermediate;
      const int64_t cols = is_down ? s.intermediate : s.hidden;
      const std::string at = fmt::format("{}experts.{}.{}_proj.weight", mlp, e, w);
      c.add(at, Dtype::kU8, {rows, cols / 2});
      c.add(at + "_scale", Dtype::kE4m3, {rows, cols / 16});
      *c.add(at + "_scale_2", Dtype::kF32, {}).as<float>() = factor;
      factor += 0.125F;
    }
  }
  return c;
}

// The code at [row, col] of codes with `cols` columns a row; nothing shared with WeightView.
inline int code_at(const Tensor& codes, int64_t cols, int64_t row, int64_t col) {
  const int byte = static_cast<int>(codes.data()[(row * cols + col) / 2]);
  return col % 2 == 0 ? byte & 15 : byte >> 4;
}
inline int byte_at(const Tensor& t, int64_t at) { return static_cast<int>(t.data()[at]); }

// Where a test finds the bytes of expert e's matrix (0 gate, 1 up, 2 down) at [row, col] of the whole layer.
struct Truth {
  std::function<int(int64_t e, int m, int64_t row, int64_t col)> code;
  std::function<int(int64_t e, int m, int64_t row, int64_t col)> scale;
};

struct Cut {
  SmallSizes sizes;
  Shard shard;
};

inline void expect_weights(const LayerTensors& layer, const Truth& truth, const Cut& cut) {
  const Shard& s = cut.shard;
  const int64_t width = cut.sizes.intermediate / s.tp_ranks;
  const int64_t local = cut.sizes.experts / s.ep_ranks;
  EXPECT_EQ(layer.spec.hidden, cut.sizes.hidden);
  EXPECT_EQ(layer.spec.intermediate, width);
  EXPECT_EQ(layer.spec.experts, cut.sizes.experts);
  EXPECT_EQ(layer.spec.local_experts, local);
  EXPECT_EQ(layer.spec.first_expert, local * s.ep_rank);
  ASSERT_EQ(layer.experts.size(), static_cast<size_t>(local));
  int64_t wrong = 0;
  for (int64_t e = 0; e < local; ++e) {
    const layouts::ExpertWeights& w = layer.experts[static_cast<size_t>(e)];
    const layouts::WeightView* views[] = {&w.gate, &w.up, &w.down};
    for (int m = 0; m < 3; ++m) {
      const layouts::WeightView& v = *views[m];
      ASSERT_EQ(v.rows, m == 2 ? cut.sizes.hidden : width);
      ASSERT_EQ(v.cols, m == 2 ? width : cut.sizes.hidden);
      for (int64_t r = 0; r < v.rows; ++r) {
        for (int64_t c = 0; c < v.cols; ++c) {
          const int64_t row = m == 2 ? r : r + width * s.tp_rank;
          const int64_t col = m == 2 ? c + width * s.tp_rank : c;
          const int64_t expert = e + local * s.ep_rank;
          wrong += v.code(r, c) != truth.code(expert, m, row, col);
          wrong += v.scale(r, c) != truth.scale(expert, m, row, col);
        }
      }
    }
  }
  EXPECT_EQ(wrong, 0);
}

inline bool same_bytes(const TensorView& got, const Tensor& want) {
  return got.data != nullptr && got.dtype == want.dtype() && got.dims == want.dims() &&
         std::memcmp(got.data, want.data(), want.num_bytes()) == 0;
}

// Whole, halves that cut a scale block (96 / 2 = 48), sixths of 16 columns, quarters of the experts, both.
inline const Shard kShards[] = {{},           {0, 2, 0, 1}, {1, 2, 0, 1},
                                {5, 6, 0, 1}, {0, 1, 3, 4}, {2, 3, 1, 2}};

// The layer, or the reason there is none.
inline Result<LayerTensors> load_layer(const std::filesystem::path& path, int64_t layer,
                                       const LoadOptions& options = {}) {
  OCTET_ASSIGN_OR_RETURN(const Model model, Model::open(path));
  return model.layer(layer, options);
}

inline bool says(const Status& status, std::string_view words) {
  return !status.ok() && status.why.find(words) != std::string::npos &&
         status.why.find('\n') == std::string::npos;
}
#define EXPECT_SAYS(expr, words)                                   \
  do {                                                             \
    const Status says_status_ = (expr);                            \
    EXPECT_TRUE(says(says_status_, words))                         \
        << "wanted: " << (words) << "\ngot: " << says_status_.why; \
  } while (false)

}  // namespace octet::checkpoint
