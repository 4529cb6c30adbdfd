// SPDX-License-Identifier: Apache-2.0
#include "cuda/device_bytes.h"

#include <utility>

#include <cuda_runtime_api.h>

#include "cuda/device_memory.h"

namespace octet::cuda {

Result<std::shared_ptr<std::byte>> device_memory(int64_t bytes) {
  OCTET_ASSIGN_OR_RETURN(DeviceMemory memory, DeviceMemory::allocate(bytes));
  const auto kept = std::make_shared<DeviceMemory>(std::move(memory));
  return std::shared_ptr<std::byte>(kept, kept->as());
}
Status copy_bytes(void* to, const void* from, int64_t bytes) {
  return device_status("copy", cudaMemcpy(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault));
}

bool is_device_memory(const void* pointer) {
  cudaPointerAttributes attributes{};
  const cudaError_t error = cudaPointerGetAttributes(&attributes, pointer);
  if (error != cudaSuccess) cudaGetLastError();  // no device, no memory of one
  return error == cudaSuccess && attributes.type == cudaMemoryTypeDevice;
}

}  // namespace octet::cuda
