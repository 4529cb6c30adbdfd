// SPDX-License-Identifier: Apache-2.0
// What a DeviceLayer asks of the kernels that its calls run on; one object without state for each that dispatch may choose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/carver.h"
#include "core/shape.h"
#include "cuda/device_layer.h"
#include "cuda/expert_gemm.h"
#include "layouts/stream_fp4.h"
#include "octet/status.hpp"

namespace octet::cuda {

// A loaded layer; pointers are device memory.
struct LayerOnDevice {
  LayerSpec spec;
  StreamWeights weights;
  const float *bias = nullptr, *bias_vl = nullptr;  // [E], of a dsv4 router
};

// Pieces of a workspace, each as aligned as the whole is.
constexpr int64_t kWorkspaceAlignment = 256;
using DeviceCarver = Carver<kWorkspaceAlignment>;

class DeviceExperts {
 public:
  virtual ~DeviceExperts() = default;

  // The order of codes that they read fastest.
  virtual layouts::StreamOrder order(Activations activations) const = 0;
  // Why they don't take a layer, h of which begins at element `down_start` of a scale block of its second matrices; empty: they do.
  // Asks no device.
  virtual std::string refusal(const LayerSpec& spec, int64_t down_start) const = 0;
  // Once a layer, when it is loaded: whatever no call may do, such as loading the kernels. Errors: kUnsupported for values of the
  // weights that they don't take, kDeviceError.
  virtual Status prepare(const StreamWeights& weights) const = 0;
  // Why they don't run a call that a layer takes otherwise.
  virtual Status check(const LayerOnDevice& layer, const DeviceCall& call) const = 0;
  virtual int64_t workspace_bytes(const LayerOnDevice& layer, int64_t tokens,
                                  int64_t top_k) const = 0;
  // A call that was checked, T at least 1, on a cudaStream_t of the current device. Errors: before anything is enqueued, or
  // kDeviceError.
  virtual Status enqueue(const LayerOnDevice& layer, const DeviceCall& call, std::byte* workspace,
                         void* stream) const = 0;
};

}  // namespace octet::cuda
