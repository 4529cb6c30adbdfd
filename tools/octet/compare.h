// SPDX-License-Identifier: Apache-2.0
// A layer's rows against the float64 reference, from the checkpoint's own weights or from a packed file's panels.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "checkpoint/model.h"
#include "core/progress.h"
#include "layouts/expert_weights.h"
#include "layouts/panel.h"
#include "reference/layer.h"

namespace octet::tools {

// Local experts as the reference wants them. Those of a packed layer are taken out of their panels one by one and kept.
class ExpertReader {
 public:
  explicit ExpertReader(const checkpoint::LayerTensors& layer);
  ~ExpertReader();
  ExpertReader(const ExpertReader&) = delete;
  ExpertReader& operator=(const ExpertReader&) = delete;
  layouts::ExpertWeights operator()(int64_t local_expert);

 private:
  const checkpoint::LayerTensors& layer_;
  std::map<int64_t, std::unique_ptr<layouts::UnpackedExpert>> unpacked_;
};

// One call of a layer: what went in and what came out.
struct CallView {
  int64_t tokens = 0, top_k = 0;
  const Bf16* x = nullptr;              // [T, H]
  const int32_t* topk_ids = nullptr;    // [T, k]
  const float* topk_weights = nullptr;  // [T, k]
  const Bf16* y = nullptr;              // [T, H]
  const reference::MadeHidden* made =
      nullptr;  // h, where the kernel gives it: judged too, and y's bound is smaller
  reference::Sums sums = reference::Sums::kBinary32;  // of the kernel
};

struct Comparison {
  reference::Worst worst;      // of y
  reference::HiddenVerdict h;  // num_elems 0: not judged
  int64_t num_elems = 0;       // of y
  int64_t num_exact = 0;       // that are the reference's own value rounded to BF16
  bool ok() const { return worst.num_outside == 0 && h.num_outside == 0; }
};
Comparison compare_with_reference(const checkpoint::LayerTensors& layer, const CallView& call,
                                  const Progress& progress = {});

}  // namespace octet::tools
