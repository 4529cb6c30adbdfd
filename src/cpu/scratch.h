// SPDX-License-Identifier: Apache-2.0
// Memory of the operations that have no workspace argument (gemm1, gemm2, grouped_moe): taken at each call. The layer's
// comes from its caller (experts.h).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/executor.h"
#include "cpu/expert_gemm.h"

namespace octet::cpu {

// Every one that is read is written first.
inline std::unique_ptr<float[]> uninitialised_floats(int64_t count) {
  return std::unique_ptr<float[]>(new float[static_cast<size_t>(count)]);
}

// Rows as integers (integer_rows.h): memory for them, filled, and where each row of the runs stands in it.
class IntegerScratch {
 public:
  // `rows.out` is this object's own; row i of the runs is the row_of(i)-th of `rows`.
  template <class RowOf>
  IntegerScratch(const RowDot& dot, const IntegerLayout& layout, std::span<const ExpertRun> runs,
                 IntegerRows rows, const RowOf& row_of, Executor& executor)
      : memory_(new uint8_t[static_cast<size_t>(rows.rows * layout.row_bytes())]),
        rows_(runs.empty() ? 0 : static_cast<size_t>(runs.back().first + runs.back().count)) {
    rows.out = memory_.get();
    encode_integers(dot, layout, runs, rows, executor);
    find_integer_rows(dot, layout, runs, memory_.get(), row_of, rows_.data());
  }
  const uint8_t* const* rows() const { return rows_.data(); }

 private:
  std::unique_ptr<uint8_t[]> memory_;
  std::vector<const uint8_t*> rows_;
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
