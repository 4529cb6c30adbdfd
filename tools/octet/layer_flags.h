// SPDX-License-Identifier: Apache-2.0
// The options that say which part of a layer to load and what runs it; the same words in every verb that takes them.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/model.h"
#include "dispatch/layer.h"
#include "octet/status.hpp"

namespace octet::tools {

// As typed.
struct LayerFlags {
  std::string tp = "0/1", ep = "0/1";
  std::string activations;  // empty: the checkpoint's default
  std::string precision = "fast";
  std::string backend = "auto";
  std::string kernel;
  std::string pages = "huge", numa = "first-touch", packed = "mmap";
  std::optional<int64_t> threads;
  std::optional<int64_t> image_sentinel_lo;
  bool trace = false;  // every intermediate is wanted
};

void add_layer_flag(CLI::App& app, int64_t& layer);        // --layer, required
void add_shard_flags(CLI::App& app, LayerFlags& flags);    // --tp --ep --activations
void add_numeric_flags(CLI::App& app, LayerFlags& flags);  // --precision --image-sentinel-lo
void add_backend_flag(CLI::App& app, LayerFlags& flags);   // --backend
void add_threads_flag(CLI::App& app, LayerFlags& flags);   // --threads
void add_kernel_flags(CLI::App& app, LayerFlags& flags);   // --backend --kernel --threads
void add_memory_flags(CLI::App& app, LayerFlags& flags);   // --pages --numa --packed

// What they mean. A number out of range is kInvalidArgument, a name that does not exist kMisuse.
Result<checkpoint::LoadOptions> load_options(const LayerFlags& flags);
Result<dispatch::LayerOptions> layer_options(const LayerFlags& flags);
Result<int> num_threads(const LayerFlags& flags);  // 0: all cores

Result<Activations> activations_from_name(std::string_view name);
Result<WeightFormat> weights_from_name(std::string_view name);

}  // namespace octet::tools
