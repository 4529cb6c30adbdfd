// SPDX-License-Identifier: Apache-2.0
// Layers in other orders back in a checkpoint's, in host memory of their own: for CUDA devices, whose loading packs from that order.
#pragma once

#include "checkpoint/model.h"
#include "core/executor.h"
#include "core/shape.h"
#include "layouts/prepared.h"

namespace octet::dispatch {

// `packed` is the layer of a packed file. Codes and scales are copied; gate, factors and biases stay views.
checkpoint::LayerTensors unpacked(const checkpoint::LayerTensors& packed, Executor& executor);
// check_weights() took the tensors.
checkpoint::LayerTensors unprepared(const layouts::PreparedTensors& tensors, const LayerSpec& spec,
                                    Executor& executor);

}  // namespace octet::dispatch
