// SPDX-License-Identifier: Apache-2.0
// The whole layer of prepared tensors (cuda/prepared_layer.h) in the simulator: calls, and what the CPU makes of them.
#pragma once

#include <vector>

#include "cuda/prepared_layer.h"
#include "prepared_problem.h"
#include "sim_launch.h"

namespace octet::sim {

struct LayerCall {
  LayerCall(const PreparedShape& of, int64_t num_tokens, unsigned seed);
  // Logits that give token t, slot j expert (t k + j) % E.
  void route_to_all();

  PreparedShape shape;
  int64_t tokens;
  std::vector<Bf16> x, shared;  // [T, H]; shared empty: none
  std::vector<float> logits, bias, bias_vl;
  std::vector<int64_t> input_ids;  // the first row is an image's
  bool wants_y = true;
  static constexpr float kScale = 1.5F;
  static constexpr int64_t kSentinel = 100;

  // Of the host's tensors, without outputs.
  TopkArgs topk() const;
};

// What a call has left.
struct LayerFound {
  std::vector<uint8_t> x_quant, x_scale;
  std::vector<int32_t> ids, permuted, record;
  std::vector<float> weights;
  PreparedResult experts;
  std::vector<Bf16> y;  // empty: not wanted
};

// A layer in the simulator's memory with a workspace of 0xFF, and calls of it that one stream takes.
class LayerOnDevice {
 public:
  LayerOnDevice(const PreparedLayer& layer, const ptxsim::machine::Settings& settings);
  // Launches; its outputs are the call's own, the workspace everybody's.
  void launch(const LayerCall& call, int ctas);
  // Runs what was launched. False: it failed, which gtest has been told.
  bool run();
  // Of the last call.
  LayerFound found();
  std::vector<Bf16> y_of(size_t call);
  const std::vector<ptxsim::machine::GridCounts>& counts() {
    return device_.machine().grid_counts();
  }
  const LaunchQueue& queue() const { return queue_; }

 private:
  const PreparedLayer& layer_;
  Device device_;
  LaunchQueue queue_;
  cuda::PreparedWeights weights_;
  uint8_t* workspace_;
  int64_t workspace_bytes_;
  int64_t tokens_ = 0;  // of the last call
  struct Output {
    Bf16* y;
    int64_t elems;
  };
  std::vector<Output> outputs_;
};

// Against the CPU: bytes of x_quant, x_scale, ids, permuted, record, y of the rows and weights found; weights and experts by their bounds.
void judge_layer(const PreparedLayer& layer, const LayerCall& call, const LayerFound& found);

}  // namespace octet::sim
