// SPDX-License-Identifier: Apache-2.0
// The routed experts of a decode step on Hopper, MXFP4 weights and MXFP8 activations, in one launch after one that makes ready. Sections 7
// and 8 of semantics.md; docs/kernels/gemm_mxfp8.md.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/expert_gemm.h"
#include "octet/status.hpp"

namespace octet::sm90 {

struct ExpertsArgs {
  cuda::ExpertGemmArgs gemm;  // T 1 ... 8
  // finalize, section 8, in the same launch; y null: rows and slot_row are all that is wanted. With y, rows of slots that are not local
  // hold 0xFFFF. 16-byte aligned.
  const float* topk_weights = nullptr;  // [T, k]
  const Bf16* shared = nullptr;         // [T, H] or null
  float scale = 1.0F;
  Bf16* y = nullptr;  // [T, H]
};

// What lies in gemm.workspace; offsets and sizes in bytes.
struct ExpertsWorkspace {
  static constexpr int64_t kTicketsAt = 0, kXAt = 256;
  int64_t h_at;     // activation records of every tile's h
  int64_t h_bytes;  // all of them
  int64_t bytes;    // all of it
};
ExpertsWorkspace experts_workspace(const cuda::ExpertGemmArgs& args);

// Why these kernels can't run `args`; ok if they can. T 1 ... 8; k at most 8; H and I multiples of 32; at most 512 experts; MXFP4 in the
// order kE4m3; h's columns begin with a scale block of the second matrices. The device is the caller's to check: SM 9.0.
Status check_experts(const ExpertsArgs& args);

// CTAs that fill the current device. Results do not depend on how many there are.
int experts_ctas();

// Once a device, before the first launch: lets the kernels have the shared memory that they need.
Status prepare_experts();

// Both enqueue on `stream`: allocate nothing, synchronise nothing, safe inside graph capture; begin before the kernel ahead of them has
// ended. check_experts(args) is ok. A stream owns workspace, rows and slot_row. Errors: kDeviceError from the launch.
//
// x_quant and x_scale to the workspace's records; workspace and rows ready for launch_experts(), whatever they held.
Status launch_make_ready(const ExpertsArgs& args, cudaStream_t stream);
Status launch_experts(const ExpertsArgs& args, int ctas, cudaStream_t stream);

// Shared memory of a CTA, in bytes.
int experts_shared_bytes(const cuda::ExpertGemmArgs& args);

}  // namespace octet::sm90
