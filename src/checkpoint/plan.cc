// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/plan.h"

#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <utility>

namespace octet::checkpoint {

Result<LayerSpec> read_sizes(const Config& config, const SizeKeys& keys) {
  LayerSpec spec;
  OCTET_ASSIGN_OR_RETURN(spec.hidden, config.integer(keys.hidden, kSizes));
  OCTET_ASSIGN_OR_RETURN(spec.intermediate, config.integer(keys.intermediate, kSizes));
  OCTET_ASSIGN_OR_RETURN(spec.experts, config.integer(keys.experts, kExpertCounts));
  OCTET_ASSIGN_OR_RETURN(spec.router.top_k, config.integer(keys.top_k, kExpertCounts));
  spec.local_experts = spec.experts;
  return spec;
}

Result<float> read_scale(const Config& config) {
  OCTET_ASSIGN_OR_RETURN(const double scale, config.number("routed_scaling_factor", 1.0));
  const auto rounded = static_cast<float>(scale);
  if (rounded > 0 && std::isfinite(rounded)) return rounded;
  return invalid_argument(
      fmt::format("routed_scaling_factor {}, wanted a positive binary32 number", scale));
}

Result<float> read_limit(const Config& config, std::optional<double> fallback) {
  OCTET_ASSIGN_OR_RETURN(const double limit, config.number("swiglu_limit", fallback.value_or(0)));
  const auto rounded = static_cast<float>(limit);
  if (limit == 0) return std::numeric_limits<float>::max();
  if (rounded > 0 && std::isfinite(rounded)) return rounded;
  return invalid_argument(fmt::format("swiglu_limit {}, wanted a positive binary32 number", limit));
}

TensorPlan gate_weight(std::string name, const LayerSpec& spec) {
  return {.name = std::move(name),
          .part = Part::kGateWeight,
          .dtypes = {Dtype::kBf16, Dtype::kF32},
          .dims = {spec.experts, spec.hidden}};
}

void add_matrix(LayerPlan& plan, MatrixPlan m) {
  const LayerSpec& s = plan.spec;
  const bool is_down = m.matrix == Matrix::kDown;
  const int64_t rows = is_down ? s.hidden : s.intermediate;
  const int64_t cols = is_down ? s.intermediate : s.hidden;
  const Dtype scale = s.weights == WeightFormat::kMxfp4 ? Dtype::kUe8m0 : Dtype::kE4m3;
  plan.tensors.push_back({.name = std::move(m.codes),
                          .part = Part::kCodes,
                          .matrix = m.matrix,
                          .expert = m.expert,
                          .dtypes = {m.code_dtype},
                          .dims = {rows, cols / 2}});
  plan.tensors.push_back({.name = std::move(m.scales),
                          .part = Part::kScales,
                          .matrix = m.matrix,
                          .expert = m.expert,
                          .dtypes = {scale},
                          .dims = {rows, cols / scale_block(s.weights)}});
  if (m.factor.empty()) return;
  plan.tensors.push_back({.name = std::move(m.factor),
                          .part = Part::kFactor,
                          .matrix = m.matrix,
                          .expert = m.expert,
                          .dtypes = {Dtype::kF32},
                          .dims = {}});
}

}  // namespace octet::checkpoint
