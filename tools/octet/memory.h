// SPDX-License-Identifier: Apache-2.0
// Whether there is memory for what is about to be made: asked first, so that too much is a sentence and no failed allocation.
#pragma once

#include <cstdint>
#include <string_view>

#include "checkpoint/model.h"
#include "octet/status.hpp"

namespace octet::tools {

// What can be had without swapping: the machine's, or what a control group or a limit of the process leaves of it; file
// pages count as free.
int64_t available_memory_bytes();

// "WHAT: needs 12.0 GB, want at most the 3.1 GB that are available".
Status check_memory(std::string_view what, int64_t bytes);
// The host's, of a layer that goes to a CUDA device: a packed one is taken out of its panels first.
Status check_memory_of_device_load(const checkpoint::LayerTensors& tensors);

}  // namespace octet::tools
