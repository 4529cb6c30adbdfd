// SPDX-License-Identifier: Apache-2.0
// The experts of a layer from a checkpoint to device memory, and what belongs to them.
#pragma once

#include <cstdint>

#include "checkpoint/model.h"
#include "core/executor.h"
#include "core/progress.h"
#include "cuda/device_memory.h"
#include "cuda/expert_gemm.h"

namespace octet::cuda {

struct DeviceWeights {
  DeviceMemory codes;       // [local experts] of sizes.expert_bytes()
  DeviceMemory parameters;  // what the pointers of `view` but data point into
  StreamWeights view;
};

// Packs in pieces of some 64 MB by the executor's threads and copies each; host memory of one piece is all that is held.
Result<DeviceWeights> load_weights(const checkpoint::LayerTensors& tensors,
                                   layouts::StreamOrder order, Executor& executor,
                                   const Progress& progress);

}  // namespace octet::cuda
