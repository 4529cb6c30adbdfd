// SPDX-License-Identifier: Apache-2.0
// One layer from the words of a command line to its outputs: opened, its input read, loaded, run. `run` and `check` share it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/model.h"
#include "core/executor.h"
#include "core/tensor.h"
#include "dispatch/layer.h"
#include "layer_flags.h"
#include "octet/status.hpp"

namespace octet::tools {

// Tensors of a call; those that are not given have no dims.
struct LayerInput {
  Tensor x;             // BF16 [T, H]
  Tensor logits;        // F32 [T, E]
  Tensor topk_ids;      // I32 [T, k]
  Tensor topk_weights;  // F32 [T, k]
  Tensor input_ids;     // I64 [T]
  int64_t tokens() const { return x.dims()[0]; }
  bool has(const Tensor& tensor) const { return !tensor.dims().empty(); }
};

// Reads and checks them: x, and ids with weights, or logits, or neither. Ids and weights win over logits.
Result<LayerInput> read_layer_input(const std::filesystem::path& path,
                                    const checkpoint::LayerTensors& layer);
// The same question for tensors that were made here: does the router have what it needs?
Status check_router_input(const LayerInput& input, const checkpoint::LayerTensors& layer);

struct LayerOutput {
  Tensor y;             // BF16 [T, H]
  Tensor topk_ids;      // I32 [T, k]
  Tensor topk_weights;  // F32 [T, k]
  Tensor logits;        // F32 [T, E]; none where ids were given
  double seconds = 0;   // of the call
  // With trace only; rows in the layer's own order (`permuted`).
  Tensor rows;                // BF16 [T k, H]
  Tensor permuted;            // I32 [T, k]
  Tensor x_quant, x_scale;    // E4M3 [T, H], U8 [T, H/32]             mxfp8
  Tensor h_values, h_scales;  // E4M3 [T k, I], U8 [T k, ceil(I/32)]   mxfp8
  Tensor h;                   // BF16 [T k, I]                         bf16
  int64_t top_k() const { return topk_ids.dims()[1]; }
};

class LayerSession {
 public:
  // Nothing is loaded yet: the tensors are mapped.
  static Result<LayerSession> open(const std::filesystem::path& model, int64_t layer,
                                   const LayerFlags& flags);
  Status load();
  Result<LayerOutput> run(const LayerInput& input, bool trace);

  const checkpoint::LayerTensors& tensors() const { return tensors_; }
  const LayerSpec& spec() const { return tensors_.spec; }
  const checkpoint::Model& model() const { return model_; }
  const dispatch::Layer& layer() const { return layer_; }
  // What run() allocates for a call.
  int64_t run_bytes(int64_t tokens, int64_t top_k, bool trace) const;
  double load_seconds() const { return load_seconds_; }
  int num_threads() const { return executor_->num_threads(); }
  std::string title() const;  // "layer 3 of ckpt (deepseek_v4, tp 0/4)"

 private:
  std::string path_;
  int64_t index_ = 0;
  checkpoint::Shard shard_;
  dispatch::LayerOptions options_;
  std::unique_ptr<Executor> executor_;
  checkpoint::Model model_;
  checkpoint::LayerTensors tensors_;
  dispatch::Layer layer_;
  double load_seconds_ = 0;
};

}  // namespace octet::tools
