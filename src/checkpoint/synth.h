// SPDX-License-Identifier: Apache-2.0
// Made-up checkpoints with a real model's tensor names, dtypes, shapes and config.json; the same bytes for the same seed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/progress.h"
#include "octet/status.hpp"

namespace octet::checkpoint {

struct SynthOptions {
  std::string preset;  // of synth_presets()
  // A folder, made if missing; must be empty or hold a checkpoint made here, which goes, also when the call fails.
  std::filesystem::path output;
  std::optional<int64_t> layers, experts, hidden, intermediate;  // smaller than the real model's
  uint64_t seed = 0;
  int64_t shard_bytes = int64_t{2} << 30;  // larger models are split, with an index
};

std::vector<std::string_view> synth_presets();
Status synth(const SynthOptions& options, const Progress& progress = {});

}  // namespace octet::checkpoint
