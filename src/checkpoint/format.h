// SPDX-License-Identifier: Apache-2.0
// What a checkpoint format says of an MoE layer: sizes, router, activation, and every tensor with its name, dtypes, shape
// and place in the layer. Loading (bind.h), validate and synth all read this one description.
//
//   config.json ──► make_format ──► Format ──► plan(layer): LayerPlan {spec, tensors}
//                                                tensors + TensorStore ──► bind: LayerTensors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/tensor_store.h"
#include "core/dtype.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "octet/status.hpp"

namespace octet::checkpoint {

constexpr std::string_view kFormatsBuilt = "deepseek_v4, gpt_oss, modelopt, packed";

// Where a tensor belongs: a field of Gate, or a part of an expert's matrix.
enum class Part : uint8_t {
  kGateWeight,
  kLogitBias,
  kBias,
  kBiasVl,
  kTable,
  kCodes,   // E2M1 pairs
  kScales,  // UE8M0 or E4M3
  kFactor,  // the matrix's fp32 factor, one number
  kRowBias  // BF16, a number an output row
};

enum class Matrix : uint8_t {
  kNone,
  kGate,
  kUp,
  kDown,
  kGateUp  // rows of both in turn, even gate, odd up
};

constexpr int64_t kAllExperts = -1;

struct TensorPlan {
  std::string name;
  Part part;
  Matrix matrix = Matrix::kNone;
  int64_t expert =
      kAllExperts;            // kAllExperts: the first axis counts experts (or it is the router's)
  std::vector<Dtype> dtypes;  // any of these
  Dims dims;                  // -1: any size
};

// One layer, whole: before shards.
struct LayerPlan {
  LayerSpec spec;
  std::vector<TensorPlan> tensors;  // the router's, then the experts' ascending
};

class Format {
 public:
  Format() = default;
  Format(const Format&) = delete;
  Format& operator=(const Format&) = delete;
  virtual ~Format() = default;

  virtual std::string_view name() const = 0;  // of kFormatsBuilt
  virtual std::string_view model_type() const = 0;
  // Indices of the MoE layers that have tensors here, ascending.
  virtual std::vector<int64_t> layers(const TensorStore& store) const = 0;
  // How many layers the configuration gives a model that has experts in each; none: it does not say, or has others too.
  virtual std::optional<int64_t> num_layers() const { return {}; }
  // Whether a layer between those of `layers` has no routed experts that this format reads.
  virtual bool is_other_layer(int64_t, const TensorStore&) const { return false; }
  // How the names of a layer's tensors begin, "layers.3".
  virtual std::string layer_name(int64_t layer, const TensorStore& store) const;
  // `store` settles spellings that vary and what is there beside the routed experts; null: as published (synth).
  virtual LayerPlan plan(int64_t layer, const TensorStore* store) const = 0;
};

// "layers.3"
std::string plain_layer_name(int64_t layer);

// The format that a configuration names; refused with the name of what is not built. `store` null: names are not looked at.
Result<std::unique_ptr<const Format>> make_format(const Config& config, const Config& quant_config,
                                                  const TensorStore* store);

// Whether a tensor is what the plan wants: "tensor NAME: shape [4, 8], wanted [4, 16]".
Status wrong_dtype(const TensorPlan& plan, std::string_view found);
Status check_dtype(const TensorPlan& plan, const TensorView& found);
Status check_shape(const TensorPlan& plan, const TensorView& found);
std::string wanted_dtypes(const TensorPlan& plan);  // "BF16 or F32"
std::string wanted_dims(const TensorPlan& plan);    // "[any, 6]"

// Sizes that any layer must have, whatever file it comes from.
Status check_spec(const LayerSpec& spec);

}  // namespace octet::checkpoint
