// SPDX-License-Identifier: Apache-2.0
// Memory of the current device for code without CUDA's headers; in a library without CUDA device_layer_absent.cc stands in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "octet/status.hpp"

namespace octet::cuda {

// 256-byte aligned, given back with the last pointer to it. Errors: kOutOfMemory with the bytes wanted and those free, kDeviceError.
Result<std::shared_ptr<std::byte>> device_memory(int64_t bytes);
// Between host and device memory, whichever the pointers are of; waits. Errors: kDeviceError.
Status copy_bytes(void* to, const void* from, int64_t bytes);
// Whether the host cannot read there because it is a device's own. False without a device.
bool is_device_memory(const void* pointer);

}  // namespace octet::cuda
