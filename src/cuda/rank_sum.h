// SPDX-License-Identifier: Apache-2.0
// Tensor parallelism's last step: the ranks' partial sums of y, gathered through NCCL, added in rank order.
//
//   y of each rank [T, H] bf16 ──► partials[rank] ──► all-gather (NCCL) ──► partials [ranks, T H] ──► rank_sum ──► y [T, H] bf16
//
// A plain all-reduce would round at every step, in an order of NCCL's choice; the few rows of a decode step are so little that
// gathering them costs the same.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/rank_reduce.h"
#include "formats/bf16.h"
#include "octet/status.hpp"

namespace octet::cuda {

struct RankSumArgs {
  const Bf16* partials;  // [ranks, count]
  int64_t ranks, count;
  Bf16* y;  // [count]; may be one of the partials
};
// y[i] = bf16(((p0[i] + p1[i]) + p2[i]) + ...), sums in binary32, one rounding at the end; one rank's bytes come out as they are, NaN
// aside. Pointers 16-byte aligned. Enqueues on `stream`, with a programmatic edge: allocates nothing, synchronises nothing.
// Errors: kUnsupported with the value, kDeviceError from the launch. Source: semantics.md section 8.
Status launch_rank_sum(const RankSumArgs& args, cudaStream_t stream);

}  // namespace octet::cuda
