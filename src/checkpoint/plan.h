// SPDX-License-Identifier: Apache-2.0
// What the formats' plans are made of: sizes from a configuration, and tensors that several formats have.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/format.h"
#include "checkpoint/model_sizes.h"

namespace octet::checkpoint {

constexpr int64_t kAnySize = -1;
constexpr Config::Range kCounts = {0, int64_t{1} << 30};
constexpr Config::Range kLayerCounts = {0, int64_t{1} << 16};
constexpr Config::Range kRanks = {0, int64_t{1} << 20};
constexpr Config::Range kSizes = {1, kMaxWidth};  // H, I
constexpr Config::Range kExpertCounts = {1, kMaxExperts};

struct SizeKeys {
  std::string_view hidden, intermediate, experts, top_k;
};
// A whole layer's sizes; everything else as by default.
Result<LayerSpec> read_sizes(const Config& config, const SizeKeys& keys);

// routed_scaling_factor: 1 if absent, positive.
Result<float> read_scale(const Config& config);
// swiglu_limit: `fallback` if absent, none if there is no fallback or it is 0.
Result<float> read_limit(const Config& config, std::optional<double> fallback);

TensorPlan gate_weight(std::string name, const LayerSpec& spec);

struct MatrixPlan {
  std::string codes, scales;  // names
  std::string factor = {};    // empty: none
  Matrix matrix;
  int64_t expert;
  Dtype code_dtype = Dtype::kU8;
};
// Codes [N, K/2], scales [N, K/block] (F8_E8M0 or F8_E4M3) and the factor of one expert's matrix.
void add_matrix(LayerPlan& plan, MatrixPlan matrix);

}  // namespace octet::checkpoint
