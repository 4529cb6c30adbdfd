// SPDX-License-Identifier: Apache-2.0
// For tests: a folder of its own, gone at the end, with a small made-up checkpoint whose tensors can be changed.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <utility>

#include "checkpoint/safetensors.h"
#include "checkpoint/synth.h"

namespace octet::checkpoint {

class TestFolder {
 public:
  TestFolder() {
    std::string name = testing::TempDir() + "octet_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// A preset at H 64, I 64, 8 experts, one layer, in `path`.
inline SynthOptions small_synth(const std::string& preset, const std::filesystem::path& path) {
  SynthOptions options;
  options.preset = preset;
  options.output = path;
  options.experts = 8;
  options.hidden = options.intermediate = 64;
  return options;
}

// All tensors of PATH/model.safetensors changed by `edit(NamedTensors&)`.
template <class Edit>
void edit_tensors(const std::filesystem::path& path, const Edit& edit) {
  NamedTensors tensors;
  {
    const auto file = SafetensorsFile::open(path / "model.safetensors");
    ASSERT_TRUE(file.ok()) << file.status().why;
    for (const auto& [name, view] : file->tensors()) {
      Tensor copy(view.dtype, view.dims);
      std::copy_n(view.data, view.num_bytes(), copy.data());
      tensors.emplace(name, std::move(copy));
    }
  }
  edit(tensors);
  NamedViews views;
  for (const auto& [name, tensor] : tensors) views.emplace(name, tensor.view());
  const Status saved = save_safetensors(path / "model.safetensors", views);
  ASSERT_TRUE(saved.ok()) << saved.why;
}

}  // namespace octet::checkpoint
