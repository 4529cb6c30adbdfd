// SPDX-License-Identifier: Apache-2.0
// device_layer.h of a library without CUDA.
#include "cuda/device_layer.h"

namespace octet::cuda {

std::string device_refusal(int, int, bool) {
  return "backend cuda is not built in this library (-DOCTET_SM90=ON and nvcc build it)";
}
std::string sm80_refusal() { return device_refusal(8, 0); }
const DeviceExperts* sm80_experts() { return nullptr; }

Result<std::unique_ptr<const DeviceLayer>> DeviceLayer::load(const checkpoint::LayerTensors&,
                                                             const DeviceExperts&, Executor&,
                                                             const Progress&) {
  return unsupported(device_refusal(0, 0));
}

}  // namespace octet::cuda
