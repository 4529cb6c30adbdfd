// SPDX-License-Identifier: Apache-2.0
// How far outputs are from the layer in float64 without any rounding in between: the yardstick for us and for peers, whose
// contracts differ. (The reference rounds h and rows to BF16 as our contract says; max_error_over_bound is against that.)
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "checkpoint/model.h"
#include "core/progress.h"
#include "layouts/expert_weights.h"

namespace octet::tools {

// What goes into a call.
struct CallInput {
  int64_t tokens = 0, top_k = 0;
  const Bf16* x = nullptr;         // [T, H]
  const int32_t* ids = nullptr;    // [T, k], global
  const float* weights = nullptr;  // [T, k]
};

// y [T * H] in float64.
std::vector<double> exact_layer(const checkpoint::LayerTensors& layer, const CallInput& call,
                                const Progress& progress = {});

// sum (got - want)^2 / sum want^2; NaN if an element is.
double nmse(const std::vector<double>& want, const std::function<double(size_t)>& got);

}  // namespace octet::tools
