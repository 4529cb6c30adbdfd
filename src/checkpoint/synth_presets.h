// SPDX-License-Identifier: Apache-2.0
// The models that synth() imitates: sizes, the tensors of a layer's MoE part by their public names, configuration files.
// Sources: formats.md sections 1-3.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/synth_fill.h"
#include "octet/status.hpp"

namespace octet::checkpoint {

struct SynthSizes {
  int64_t layers, experts, hidden, intermediate;
};

struct SynthText {
  std::string file;
  std::string text;
};

struct SynthPreset {
  std::string_view name;
  SynthSizes sizes;  // the real model's, but one layer: a real model is hundreds of gigabytes
  int64_t top_k;
  int64_t block;  // I is a multiple of it
  std::vector<SynthTensor> (*layer)(const SynthPreset& preset, const SynthSizes& sizes,
                                    int64_t layer);
  std::vector<SynthText> (*texts)(const SynthPreset& preset, const SynthSizes& sizes);
};

// kMisuse for an unknown name, with the nearest right one; kUnsupported for one that is not built yet.
Result<const SynthPreset*> find_synth_preset(std::string_view name);

}  // namespace octet::checkpoint
