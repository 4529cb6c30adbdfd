// SPDX-License-Identifier: Apache-2.0
// Memory of the operations that have no workspace argument (gemm1, gemm2, grouped_moe): taken at each call. The layer's
// comes from its caller (experts.h).
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/executor.h"
#include "cpu/expert_gemm.h"

namespace octet::cpu {

// Every one that is read is written first.
inline std::unique_ptr<float[]> uninitialised_floats(int64_t count) {
  return std::unique_ptr<float[]>(new float[static_cast<size_t>(count)]);
}

// Rows as integers one after another.
class IntegerScratch {
 public:
  IntegerScratch(const IntegerLayout& layout, int64_t rows)
      : row_bytes_(layout.row_bytes()),
        memory_(new uint8_t[static_cast<size_t>(rows * row_bytes_)]) {}
  uint8_t* data() { return memory_.get(); }
  const uint8_t* row(int64_t i) const { return memory_.get() + i * row_bytes_; }

 private:
  int64_t row_bytes_;
  std::unique_ptr<uint8_t[]> memory_;
};

// For making panels, a piece a thread.
class PanelScratch {
 public:
  PanelScratch(const PanelSource& weights, const Executor& executor)
      : room_(static_cast<size_t>(executor.num_threads() * panel_scratch_stride(weights))),
        memory_(room_ + layouts::kPanelAlignment) {}
  std::byte* data() {
    void* at = memory_.data();
    size_t space = memory_.size();
    return static_cast<std::byte*>(std::align(layouts::kPanelAlignment, room_, at, space));
  }

 private:
  size_t room_;
  std::vector<std::byte> memory_;
};

}  // namespace octet::cpu
