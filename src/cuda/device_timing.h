// SPDX-License-Identifier: Apache-2.0
// What a program without CUDA's headers needs to time calls on the current device; in a library without CUDA device_layer_absent.cc
// stands in. Errors everywhere: kOutOfMemory, kDeviceError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "octet/status.hpp"

namespace octet::cuda {

struct DeviceInfo {
  std::string name;
  int64_t most_clock_mhz = 0;  // the highest that the multiprocessors may have, not what they had
  int64_t last_cache_bytes = 0;
};
Result<DeviceInfo> device_info();

// What `enqueue` puts on a stream (a cudaStream_t), as a graph that keeps the programmatic edges.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  static Result<std::unique_ptr<DeviceGraph>> capture(
      const std::function<Status(void* stream)>& enqueue);
  // Runs it once and waits; seconds between two events of the stream around it.
  virtual Result<double> replay() = 0;
};

// Reads `bytes` of the buffer, again from its beginning where that is more than all of it, by 16-byte loads of all multiprocessors;
// rounded up to whole pieces of kReadPiece. The buffer is a multiple of them and holds random bytes.
constexpr int64_t kReadPiece = 64 << 10;
Status launch_read(std::byte* buffer, int64_t buffer_bytes, int64_t bytes, void* stream);

}  // namespace octet::cuda
