// SPDX-License-Identifier: Apache-2.0
// device_layer.h of a library without CUDA.
#include "cuda/device_layer.h"

namespace octet::cuda {

std::string device_refusal(int, int) { return "backend cuda is not built in this library"; }

Result<std::unique_ptr<const DeviceLayer>> DeviceLayer::load(const checkpoint::LayerTensors&,
                                                             Executor&, const Progress&) {
  return unsupported(device_refusal(0, 0));
}

}  // namespace octet::cuda
