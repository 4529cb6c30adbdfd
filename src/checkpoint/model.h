// SPDX-License-Identifier: Apache-2.0
// A checkpoint as users bring it: which MoE layers it has, and one layer's tensors cut to this rank's part, memory-mapped.
//
//   path ──► TensorStore (one file, or shards by index) ──► format by config.json and names ──► Model
//   Model::layer(n, shard) ──► LayerTensors {spec, gate, experts}      no weight is copied
//
// Formats: deepseek.h, gpt_oss.h, modelopt.h, packed.h; a format that is not built is refused by its name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"
#include "core/tensor.h"
#include "layouts/expert_weights.h"
#include "layouts/panel.h"
#include "octet/status.hpp"

namespace octet::checkpoint {

// This rank's part: `tp` cuts I, `ep` cuts E; ranks count from 0.
struct Shard {
  int64_t tp_rank = 0, tp_ranks = 1;
  int64_t ep_rank = 0, ep_ranks = 1;
  friend bool operator==(const Shard&, const Shard&) = default;
};

struct LoadOptions {
  Shard shard = {};
  // Default: mxfp8 for DeepSeek-V4 and V4.1 with FP4 experts, else bf16.
  std::optional<Activations> activations = {};
  Precision precision = Precision::kFast;
  std::optional<int64_t> image_sentinel_lo = {};  // overrides the configuration's
};

// The router's tensors; null data: the layer has none.
struct Gate {
  TensorView weight;      // BF16 or F32 [E, H]
  TensorView logit_bias;  // BF16 or F32 [E], added to the logits (gpt-oss)
  TensorView bias;        // F32 [E], added for selection only
  TensorView bias_vl;     // F32 [E], instead of bias for image tokens
  TensorView table;       // I32 [vocab, k], ids by token id (hash layers)
};

// Experts that lie in panels already (a packed file).
struct PackedPanels {
  const uint8_t* base = nullptr;
  int64_t expert_stride = 0;
  layouts::PanelSizes sizes;
};

struct LayerTensors {
  LayerSpec spec;
  Gate gate = {};
  std::vector<layouts::ExpertWeights>
      experts;  // local experts in order; codes and scales null in a packed layer
  std::optional<PackedPanels> packed = {};
  // The mapped files that codes and scales lie in: whoever has copied some may have their pages dropped. Empty: other memory.
  std::vector<std::span<const std::byte>> files = {};
  std::shared_ptr<const void> keep = {};  // holds what the pointers lie in

  // Which element of a scale block of the second matrices h begins at.
  int64_t down_start() const {
    return packed            ? packed->sizes.down_start
           : experts.empty() ? 0
                             : experts.front().down.start_in_block();
  }
  // Codes and scales of one local expert (layouts/panel.h).
  int64_t expert_bytes() const { return layouts::expert_weight_bytes(spec, down_start()); }
  int64_t weight_bytes() const { return spec.local_experts * expert_bytes(); }
};

class Model {
 public:
  // A checkpoint folder, a single safetensors file, or a packed file.
  static Result<Model> open(const std::filesystem::path& path);

  std::string_view format() const;             // deepseek_v4, gpt_oss, modelopt, packed
  std::string_view model_type() const;         // of config.json
  const std::vector<int64_t>& layers() const;  // indices of the MoE layers found, ascending
  // As its tensors' names begin: "layers.3", "mtp.0".
  std::string layer_name(int64_t index) const;
  Result<LayerTensors> layer(int64_t index, const LoadOptions& options) const;
  struct Impl;  // model_impl.h, for this folder
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace octet::checkpoint
