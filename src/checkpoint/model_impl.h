// SPDX-License-Identifier: Apache-2.0
// What a Model holds; for this folder.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "checkpoint/format.h"
#include "checkpoint/model.h"
#include "checkpoint/packed_file.h"
#include "checkpoint/tensor_store.h"

namespace octet::checkpoint {

struct Model::Impl {
  std::filesystem::path path;
  TensorStore store;                     // without tensors in a packed file
  std::unique_ptr<const Format> format;  // null in a packed file
  std::unique_ptr<const PackedFile> packed;
  std::vector<int64_t> layers;
};

}  // namespace octet::checkpoint
