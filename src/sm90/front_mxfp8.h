// SPDX-License-Identifier: Apache-2.0
// cuda/front.h's front as the experts' kernel wants it: top-k and routing record, x quantised straight into records, the hand-over made
// ready; in the place of launch_front() and launch_make_ready().
#pragma once

#include <cuda_runtime_api.h>

#include "core/op_args.h"
#include "octet/status.hpp"
#include "sm90/experts_mxfp8.h"

namespace octet::sm90 {

struct FrontMxfp8Args {
  const Bf16* x = nullptr;  // [T, H], 16-byte aligned
  TopkArgs topk;            // router dsv4, T of experts.gemm; check_topk(topk) is ok
  int64_t first_expert = 0;
  int32_t *permuted = nullptr, *record = nullptr;  // those of experts.gemm
  ExpertsArgs experts;
};

// Enqueues on `stream`: allocates nothing, synchronises nothing, safe inside graph capture; begins before the kernel ahead of it has ended.
// ids, weights, permuted and record are launch_front()'s bytes. Errors: kUnsupported with the value found and the value
// wanted, kDeviceError from the launch.
Status launch_front_mxfp8(const FrontMxfp8Args& args, cudaStream_t stream);

}  // namespace octet::sm90
