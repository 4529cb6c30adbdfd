// SPDX-License-Identifier: Apache-2.0
// All tensors of a checkpoint by name, memory-mapped, with its configuration files.
//
//   folder ──► model.safetensors.index.json: its shards        file ──► itself
//          └─► without one: every *.safetensors                         configuration files beside it
//
// Refused by name: index entries that leave the folder, name a missing shard or a tensor that is not in it; a tensor
// that stands in two shards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/safetensors.h"
#include "core/tensor.h"
#include "octet/status.hpp"

namespace octet::checkpoint {

constexpr const char* kIndexName = "model.safetensors.index.json";

class TensorStore {
 public:
  static Result<TensorStore> open(const std::filesystem::path& path);

  // Null: there is none.
  const TensorView* find(std::string_view name) const;
  const NamedViews& tensors() const { return tensors_; }
  // The same of tensors whose dtype is none of core/dtype.h's.
  const OtherTensor* find_other(std::string_view name) const;
  bool has_prefix(std::string_view prefix) const;
  // Numbers N of the names that begin with `before` N `after`, ascending.
  std::vector<int64_t> numbers(std::string_view before, std::string_view after) const;

  const std::filesystem::path& path() const { return path_; }
  const Config& config() const { return config_; }       // config.json; no keys without the file
  const Config& quant_config() const { return quant_; }  // hf_quant_config.json; likewise
  const std::vector<SafetensorsFile>& files() const { return *files_; }
  std::shared_ptr<const void> keep() const { return files_; }  // holds the mapped files

 private:
  Status add(SafetensorsFile file);
  Status add_indexed(const std::filesystem::path& index);
  std::filesystem::path path_;
  NamedViews tensors_;
  OtherTensors others_;
  std::shared_ptr<std::vector<SafetensorsFile>> files_;
  Config config_, quant_;
};

}  // namespace octet::checkpoint
