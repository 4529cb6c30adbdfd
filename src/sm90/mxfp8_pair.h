// SPDX-License-Identifier: Apache-2.0
// The experts of a decode step on Hopper, MXFP4 weights and MXFP8 activations: cuda/expert_gemm.h's pair as two kernels, up (the first
// matrices, SwiGLU, h in MXFP8) and down (the second ones). docs/kernels/gemm_mxfp8.md.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/expert_gemm.h"
#include "octet/status.hpp"

namespace octet::sm90 {

constexpr int64_t kPairMostTokens = 8;

// What lies in args.workspace; offsets and sizes in bytes.
struct PairWorkspace {
  static constexpr int64_t kTicketsAt = 0, kXAt = 256;
  int64_t x_bytes;       // activation records of x and what products read behind them
  int64_t h_at;          // activation records of every tile's h
  int64_t h_tile_bytes;  // one tile's
  int64_t bytes;         // all of it
};
PairWorkspace pair_workspace(const cuda::ExpertGemmArgs& args);

// Why these kernels can't run `args`; ok if they can. T 1 ... 8; k at most 8; H and I multiples of 32; at most 512 experts; MXFP4 in the
// order kE4m3; h's columns begin with a scale block of the second matrices. The device is the caller's to check: SM 9.0.
Status check_pair(const cuda::ExpertGemmArgs& args);

// CTAs of the two kernels, 1 or more; results do not depend on them. pair_grid(): those that fill the current device.
struct PairGrid {
  int up, down;
};
PairGrid pair_grid();

// Once a device, before the first launch: lets the kernels have the shared memory that they need.
Status prepare_pair();

// Each enqueues on `stream`: allocates nothing, synchronises nothing, safe inside graph capture; begins before the kernel ahead of it has
// ended. check_pair(args) is ok. A stream owns workspace, rows and slot_row. Errors: kDeviceError from the launch.
//
// x_quant and x_scale to the workspace's records; front_mxfp8.h writes them itself.
Status launch_arrange_x(const cuda::ExpertGemmArgs& args, cudaStream_t stream);
// The workspace's records to h.
Status launch_up_mxfp8(const cuda::ExpertGemmArgs& args, const PairGrid& grid, cudaStream_t stream);
// h to rows and slot_row. It follows launch_up_mxfp8 directly: before that kernel has ended it reads weights, record and permuted, which
// the kernels before it have written.
Status launch_down_mxfp8(const cuda::ExpertGemmArgs& args, const PairGrid& grid,
                         cudaStream_t stream);
// The three.
Status launch_pair_mxfp8(const cuda::ExpertGemmArgs& args, const PairGrid& grid,
                         cudaStream_t stream);

}  // namespace octet::sm90
