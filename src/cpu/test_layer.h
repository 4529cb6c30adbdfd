// SPDX-License-Identifier: Apache-2.0
// For tests of the experts: a small layer with random weights, a call of run_experts on poisoned memory, and the truth in
// plain double loops.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "cpu/experts.h"
#include "formats/bf16.h"

namespace octet::cpu {

struct TestLayerShape {
  WeightFormat weights = WeightFormat::kMxfp4;
  Activations activations = Activations::kBf16;
  Precision precision = Precision::kFast;
  int64_t hidden = 128, intermediate = 96, experts = 4;
  int64_t start = 0;  // first column of down in the stored matrix: a cut inside a scale block
  int64_t first_expert = 0;  // the layer has experts before and behind this rank's
  bool biases = false;
  Swiglu swiglu = {};
  unsigned seed = 1;
};

class TestLayer {
 public:
  explicit TestLayer(const TestLayerShape& shape) : rng_(shape.seed) {
    spec_.hidden = shape.hidden;
    spec_.intermediate = shape.intermediate;
    spec_.experts = shape.first_expert + shape.experts + 3;
    spec_.first_expert = shape.first_expert;
    spec_.local_experts = shape.experts;
    spec_.weights = shape.weights;
    spec_.activations = shape.activations;
    spec_.precision = shape.precision;
    spec_.swiglu = shape.swiglu;
    for (int64_t e = 0; e < shape.experts; ++e) experts.push_back(random_expert(shape));
    pack();
  }

  // After a change of `experts`.
  void pack() {
    const layouts::PanelSizes sizes = layouts::panel_sizes(experts[0]);
    packed_.assign(static_cast<size_t>(sizes.expert_bytes() * spec_.local_experts), 0xFF);
    std::vector<ExpertParams> params;
    for (const layouts::ExpertWeights& e : experts) {
      layouts::pack_expert(e, packed_.data() + std::ssize(params) * sizes.expert_bytes());
      params.push_back(
          {e.gate_alpha, e.up_alpha, e.down_alpha, e.limit, e.gate_bias, e.up_bias, e.down_bias});
    }
    panels_ = std::make_unique<PanelsInMemory>(packed_.data(), sizes.expert_bytes(), sizes, params);
  }

  std::vector<Bf16> random_x(int64_t tokens, float size = 1.0F) {
    std::normal_distribution<float> normal(0.0F, size);
    std::vector<Bf16> x(static_cast<size_t>(tokens * spec_.hidden));
    for (Bf16& v : x) v = formats::bf16_from_f32(normal(rng_));
    return x;
  }
  // Distinct ids, some of them not this rank's.
  std::vector<int32_t> random_ids(int64_t tokens, int64_t top_k) {
    std::vector<int32_t> ids, all(static_cast<size_t>(spec_.experts));
    for (size_t e = 0; e < all.size(); ++e) all[e] = static_cast<int32_t>(e);
    for (int64_t t = 0; t < tokens; ++t) {
      std::shuffle(all.begin(), all.end(), rng_);
      ids.insert(ids.end(), all.begin(), all.begin() + top_k);
    }
    return ids;
  }
  // Memory for a matrix that lives as long as the layer.
  uint8_t* bytes(int64_t count) {
    stores_.emplace_back(static_cast<size_t>(count));
    return stores_.back().data();
  }
  const LayerSpec& spec() const { return spec_; }
  const PanelSource& panels() const { return *panels_; }

  std::vector<layouts::ExpertWeights> experts;

 private:
  layouts::WeightView random_view(WeightFormat format, int64_t rows, int64_t cols, int64_t start) {
    const int64_t stored = round_up(start + cols, scale_block(format));
    uint8_t* codes = bytes(rows * stored / 2);
    uint8_t* scales = bytes(rows * stored / scale_block(format));
    for (int64_t i = 0; i < rows * stored / 2; ++i) codes[i] = static_cast<uint8_t>(rng_());
    for (int64_t i = 0; i < rows * stored / scale_block(format); ++i) {
      scales[i] = static_cast<uint8_t>(format == WeightFormat::kMxfp4 ? 120 + rng_() % 5
                                                                      : 0x20 + rng_() % 24);
    }
    return {.format = format,
            .codes = codes,
            .scales = scales,
            .code_stride = stored / 2,
            .scale_stride = stored / scale_block(format),
            .rows = rows,
            .cols = cols,
            .first_col = start};
  }
  layouts::BiasView random_bias(int64_t count, int64_t stride) {
    std::normal_distribution<float> normal;
    biases_.emplace_back(static_cast<size_t>(count * stride), Bf16{0x7FC0});
    for (int64_t i = 0; i < count; ++i)
      biases_.back()[static_cast<size_t>(i * stride)] = formats::bf16_from_f32(normal(rng_));
    return {biases_.back().data(), stride};
  }
  layouts::ExpertWeights random_expert(const TestLayerShape& s) {
    layouts::ExpertWeights e;
    e.gate = random_view(s.weights, s.intermediate, s.hidden, 0);
    e.up = random_view(s.weights, s.intermediate, s.hidden, 0);
    e.down = random_view(s.weights, s.hidden, s.intermediate, s.start);
    e.limit = s.swiglu.limit;
    if (s.weights == WeightFormat::kNvfp4) {
      e.gate_alpha = 1.0F;  // gate's and up's differ: semantics allow one each
      e.up_alpha = 2.0F + static_cast<float>(rng_() % 100) / 64.0F;
      e.down_alpha = 0.3F;
    }
    if (s.biases) {
      e.gate_bias = random_bias(s.intermediate, 2);
      e.up_bias = random_bias(s.intermediate, 2);
      e.down_bias = random_bias(s.hidden, 1);
    }
    return e;
  }

  std::mt19937 rng_;
  LayerSpec spec_;
  std::vector<std::vector<uint8_t>> stores_;
  std::vector<std::vector<Bf16>> biases_;
  std::vector<uint8_t> packed_;
  std::unique_ptr<PanelsInMemory> panels_;
};

// What a call answers; every byte was 0xFF before.
struct ExpertsOutput {
  std::vector<int32_t> permuted;
  std::vector<Bf16> rows;
  std::vector<uint8_t> x_quant, x_scale, h_values, h_scales;
  std::vector<Bf16> h;
  bool guards_intact = false;  // 64 bytes on each side of the workspace

  friend bool operator==(const ExpertsOutput&, const ExpertsOutput&) = default;
};

inline ExpertsOutput run_layer(const TestLayer& layer, const std::vector<Bf16>& x,
                               const std::vector<int32_t>& ids, int64_t top_k, PanelDot dot,
                               Executor& executor, const PanelSource* panels = nullptr) {
  constexpr int64_t kGuard = 64;
  const LayerSpec& spec = layer.spec();
  const PanelSource& weights = panels != nullptr ? *panels : layer.panels();
  const auto slots = std::ssize(ids);
  const int64_t tokens = slots / top_k;
  const auto blocks = ceil_div(spec.intermediate, kMxBlock);
  const auto size = [](int64_t n) { return static_cast<size_t>(n); };
  ExpertsOutput out;
  out.permuted.assign(size(slots), -1234);
  out.rows.assign(size(slots * spec.hidden), Bf16{0xFFFF});
  out.h.assign(size(slots * spec.intermediate), Bf16{0xFFFF});
  out.h_values.assign(size(slots * spec.intermediate), 0xFF);
  out.h_scales.assign(size(slots * blocks), 0xFF);
  out.x_quant.assign(size(tokens * spec.hidden), 0xFF);
  out.x_scale.assign(size(tokens * spec.hidden / kMxBlock), 0xFF);

  const int64_t bytes =
      experts_workspace_bytes(spec, weights, tokens, top_k, executor.num_threads());
  std::vector<uint8_t> memory(size(bytes + 3 * kGuard), 0xFF);
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  uint8_t* workspace = memory.data() + round_up(static_cast<int64_t>(address % 64), 64) -
                       static_cast<int64_t>(address % 64) + kGuard;
  run_experts({.spec = &spec,
               .weights = &weights,
               .tokens = tokens,
               .top_k = top_k,
               .x = x.data(),
               .topk_ids = ids.data(),
               .workspace = reinterpret_cast<std::byte*>(workspace),
               .permuted = out.permuted.data(),
               .rows = out.rows.data(),
               .trace = {out.x_quant.data(), out.x_scale.data(), out.h_values.data(),
                         out.h_scales.data(), out.h.data()}},
              dot, executor);
  const auto intact = [](const uint8_t* p) {
    return std::all_of(p, p + kGuard, [](uint8_t b) { return b == 0xFF; });
  };
  out.guards_intact = intact(workspace - kGuard) && intact(workspace + bytes);
  return out;
}

}  // namespace octet::cpu
