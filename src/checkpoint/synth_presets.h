// SPDX-License-Identifier: Apache-2.0
// The models that synth() imitates: sizes, configuration files, and the tensors of each layer's MoE part: those that format.h
// describes for such a configuration, and what published files have beside them (shared experts, input scales).
// Sources: docs/checkpoints.md sections 1-3.
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

struct SynthPreset;
using SynthTexts = std::vector<SynthText> (*)(const SynthPreset& preset, const SynthSizes& sizes);

struct SynthPreset {
  std::string_view name;
  SynthSizes sizes;  // the real model's, but one layer: a real model is hundreds of gigabytes
  int64_t top_k;
  int64_t block;  // I is a multiple of it
  int64_t
      fp8_block;  // the shared expert has a scale for fp8_block x fp8_block weights; 0: no shared expert
  SynthTexts texts;
};

// kMisuse for an unknown name, with the nearest right one; kUnsupported for one that is not built yet.
Result<const SynthPreset*> find_synth_preset(std::string_view name);

// The tensors of layers 0 ... sizes.layers - 1, as `texts` describe them.
Result<std::vector<SynthTensor>> synth_tensors(const SynthPreset& preset, const SynthSizes& sizes,
                                               const std::vector<SynthText>& texts);

}  // namespace octet::checkpoint
