// SPDX-License-Identifier: Apache-2.0
// finalize on the device, common to every CUDA backend: weighted sum of the experts' rows, back in token order.
#pragma once

#include <cuda_runtime_api.h>

#include "core/op_args.h"
#include "octet/status.hpp"

namespace octet::cuda {

// All pointers of `args` are device memory, 16-byte aligned; H is a multiple of 8. Enqueues on `stream`: allocates nothing,
// synchronises nothing, safe inside graph capture. Errors: kUnsupported with the value, kDeviceError from the launch.
Status launch_finalize_bf16(const FinalizeArgs& args, cudaStream_t stream);

}  // namespace octet::cuda
