// SPDX-License-Identifier: Apache-2.0
// What comes before the experts, on the device, common to every CUDA backend: top-k, MXFP8 quantisation, the routing record, and all
// three in one launch, with the same bytes. semantics.md sections 3 to 5; docs/kernels/front.md.
#pragma once

#include <cuda_runtime_api.h>

#include "core/op_args.h"
#include "octet/status.hpp"

namespace octet::cuda {

// All pointers are device memory; x, x_quant and record 16-byte aligned. Each enqueues on `stream`: allocates nothing, synchronises
// nothing, safe inside graph capture; begins before the kernel ahead of it in the stream has ended, and waits for it before it
// reads or writes. Errors: kUnsupported with the value found and the value wanted, kDeviceError from the launch.

constexpr int64_t kFrontMaxTokens = 8;
constexpr int64_t kMostIds = int64_t{1} << 24;  // T k of a record

// Router dsv4; check_topk(args) is ok. Any T.
Status launch_topk(const TopkArgs& args, cudaStream_t stream);
// K a multiple of 32. Any T and scale layout; padding of x_scale is written as 0.
Status launch_mxfp8_quantize(const QuantizeArgs& args, cudaStream_t stream);
// E at most 512, T k at most kMostIds. One block, whose time grows with T k: meant for decoding.
Status launch_route(const RouteArgs& args, cudaStream_t stream);
// T at most kFrontMaxTokens; linear scales. Nothing is quantised if quantize.tokens is 0.
Status launch_front(const FrontArgs& args, cudaStream_t stream);

}  // namespace octet::cuda
