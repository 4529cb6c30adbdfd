// SPDX-License-Identifier: Apache-2.0
// Device memory and errors of the runtime for host code.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#include "octet/status.hpp"

namespace octet::cuda {

inline Status device_status(const std::string& what, cudaError_t error) {
  if (error == cudaSuccess) return {};
  cudaGetLastError();  // said here
  const Code code = error == cudaErrorMemoryAllocation ? Code::kOutOfMemory : Code::kDeviceError;
  return {code, what + ": " + cudaGetErrorString(error)};
}

// Whether `at` is a multiple of `want`.
inline Status check_multiple(const char* name, const void* at, uintptr_t want) {
  const uintptr_t off = reinterpret_cast<uintptr_t>(at) % want;
  if (off == 0) return {};
  return invalid_argument(std::string(name) + ": " + std::to_string(off) +
                          " bytes after a multiple of " + std::to_string(want) +
                          ", want a multiple");
}

// Bytes on the current device, given back with the object.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // kOutOfMemory with the bytes wanted and those free, kDeviceError.
  static Result<DeviceMemory> allocate(int64_t bytes) {
    DeviceMemory m;
    if (bytes == 0) return Result<DeviceMemory>(std::move(m));
    void* data = nullptr;
    const cudaError_t error = cudaMalloc(&data, static_cast<size_t>(bytes));
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      size_t free_bytes = 0, all_bytes = 0;
      cudaMemGetInfo(&free_bytes, &all_bytes);
      return Status{Code::kOutOfMemory, "device memory: " + std::to_string(free_bytes) + " of " +
                                            std::to_string(all_bytes) + " bytes free, want " +
                                            std::to_string(bytes)};
    }
    OCTET_RETURN_IF_ERROR(device_status("device memory", error));
    m.data_.reset(static_cast<std::byte*>(data));
    m.bytes_ = bytes;
    return Result<DeviceMemory>(std::move(m));
  }
  template <class T = std::byte>
  T* as(int64_t offset_bytes = 0) const {
    return data_ == nullptr ? nullptr : reinterpret_cast<T*>(data_.get() + offset_bytes);
  }
  int64_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* p) const { cudaFree(p); }
  };
  std::unique_ptr<std::byte, Free> data_;
  int64_t bytes_ = 0;
};

}  // namespace octet::cuda
