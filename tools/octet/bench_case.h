// SPDX-License-Identifier: Apache-2.0
// What `bench` times: layers by name with random weights, and which experts each row reads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "checkpoint/model.h"
#include "checkpoint/model_sizes.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "octet/status.hpp"
#include "random.h"

namespace octet::tools {

struct Shape {
  std::string_view name;
  checkpoint::ModelSizes sizes;
  Swiglu swiglu;
  WeightFormat weights;     // of the published model
  Activations activations;  // likewise
};
std::span<const Shape> shapes();
Result<Shape> shape_from_name(std::string_view name);

// A layer without a file: every expert's codes and scales are windows, 64 bytes apart, into one expert's worth of random
// bytes. Loading copies them into panels of their own, so the memory that is read is distinct and nothing exists twice. The router's
// bias is 0.
class RandomLayer {
 public:
  RandomLayer(const LayerSpec& spec, uint64_t seed);
  const checkpoint::LayerTensors& tensors() const { return tensors_; }

 private:
  Tensor codes_, scales_, bias_;
  checkpoint::LayerTensors tensors_;
};

// Which experts the rows of a call read: labels [T, k] of `num_labels` distinct experts, distinct within a row.
struct Pattern {
  int64_t tokens = 0, top_k = 0, num_labels = 0;
  std::vector<int64_t> labels;
};
// Exactly `distinct` experts together, or each row its k at random among `experts`, of which there are k at least.
Result<Pattern> make_pattern(int64_t tokens, int64_t top_k, int64_t experts,
                             std::optional<int64_t> distinct, Random& random);

}  // namespace octet::tools
