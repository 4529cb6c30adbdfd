// SPDX-License-Identifier: Apache-2.0
// Hopper's kernels for whoever chooses among kernels; compiles without a CUDA header. In a library without them
// sm90_experts_absent.cc stands in.
#pragma once

#include <string>

#include "cuda/device_layer.h"

namespace octet::sm90 {

// Why the current device can't run them: compute capability 9.0 and no other, since wgmma is of that architecture alone.
std::string sm90_refusal();
// experts_{mxfp8_mxfp4,bf16_mxfp4,bf16_nvfp4}_sm90, from logits in one launch, otherwise with others before it, in chunks of 8 rows; null in a
// library without.
const cuda::DeviceExperts* sm90_experts();

}  // namespace octet::sm90
