// SPDX-License-Identifier: Apache-2.0
// device_layer.h, device_bytes.h, device_timing.h and rank_reduce.h of a library without CUDA.
#include "cuda/device_bytes.h"
#include "cuda/device_layer.h"
#include "cuda/device_timing.h"
#include "cuda/rank_reduce.h"

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

Result<DeviceInfo> device_info() { return unsupported(device_refusal(0, 0)); }
Result<std::shared_ptr<std::byte>> device_memory(int64_t) {
  return unsupported(device_refusal(0, 0));
}
Status copy_bytes(void*, const void*, int64_t) { return unsupported(device_refusal(0, 0)); }
bool is_device_memory(const void*) { return false; }

Result<std::unique_ptr<DeviceGraph>> DeviceGraph::capture(const std::function<Status(void*)>&) {
  return unsupported(device_refusal(0, 0));
}
Status launch_read(std::byte*, int64_t, int64_t, void*) {
  return unsupported(device_refusal(0, 0));
}

Status reduce_over_ranks(const RankReduceArgs&, void*) { return unsupported(device_refusal(0, 0)); }

}  // namespace octet::cuda
