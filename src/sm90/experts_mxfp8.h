// SPDX-License-Identifier: Apache-2.0
// The routed experts of a decode step on Hopper in one launch, from logits or from a routing record: MXFP4 weights with MXFP8 activations,
// MXFP4 or NVFP4 weights with BF16 ones. Sections 7 to 9 of semantics.md; docs/kernels/gemm_mxfp8.md, experts_bf16_sm90.md.
#pragma once

#include <cuda_runtime_api.h>

#include "core/op_args.h"
#include "cuda/expert_gemm.h"
#include "octet/status.hpp"

namespace octet::sm90 {

// What comes before the experts, in the same launch: top-k, the routing record, MXFP8 quantisation of x. semantics.md sections 3 to 5; ids,
// weights, permuted and record are cuda::launch_front()'s bytes.
struct ExpertsFront {
  // [T, H], 16-byte aligned; of BF16 activations gemm.x. Null: gemm.record and gemm.permuted are there, and for MXFP8
  // launch_make_ready() has been before.
  const Bf16* x = nullptr;
  TopkArgs topk{};  // router dsv4, T and k of the experts; check_topk(topk) is ok
  int64_t first_expert = 0;
  int32_t *permuted = nullptr, *record = nullptr;  // gemm's, which the front writes
};

struct ExpertsArgs {
  cuda::ExpertGemmArgs gemm;  // T 1 ... 8
  // finalize, section 8, in the same launch; y null: gemm.rows and slot_row are all that is wanted. With y, rows stay in the workspace,
  // and gemm.rows is not written. 16-byte aligned.
  const float* topk_weights = nullptr;  // [T, k]
  const Bf16* shared = nullptr;         // [T, H] or null
  float scale = 1.0F;
  Bf16* y = nullptr;  // [T, H]
  ExpertsFront front = {};
};

// What lies in gemm.workspace, of any content before the first launch; offsets and sizes in bytes. A launch uses one half and leaves the
// other clear for the next one (launch_word.cuh), so between launches nobody else writes there, but for zeros over the word, after which
// the next launch begins anew.
struct ExpertsWorkspace {
  static constexpr int64_t kWordAt = 0, kHalvesAt = 256;
  // In a half: activation records of x (MXFP8), those of every tile's h, rows [T k, H].
  static constexpr int64_t kXAt = 0;
  int64_t h_at, h_bytes, rows_at;
  int64_t half_bytes;
  int64_t bytes;  // all of it
};
ExpertsWorkspace experts_workspace(const cuda::ExpertGemmArgs& args);

// The order of codes that the kernels for these activations read.
layouts::StreamOrder experts_order(Activations activations);
// Why these kernels can't run `args`; ok if they can. T 1 ... 8; k at most 8; H and I multiples of 32; at most 512 experts; weights in
// that order, MXFP4 or, with BF16 activations, NVFP4; h's columns begin with a scale block of the second matrices; with BF16 activations T times H, in
// whole records of 64, at most 57,344; x, h and the least ring in a CTA's shared memory. The device is the caller's to check: SM 9.0.
Status check_experts(const ExpertsArgs& args);

// CTAs that fill the current device. Results do not depend on how many there are.
int experts_ctas();

// Once a device, before the first launch: lets the kernels of these formats have the shared memory that they need.
Status prepare_experts(Activations activations = Activations::kMxfp8,
                       WeightFormat weights = WeightFormat::kMxfp4);

// Both enqueue on `stream`: allocate nothing, synchronise nothing, safe inside graph capture; begin before the kernel ahead of them has
// ended. check_experts(args) is ok. A stream owns workspace, rows and slot_row. Errors: kDeviceError from the launch.
//
// MXFP8: x_quant and x_scale to the workspace's records, and the workspace ready for launch_experts() without a front, whatever it held.
Status launch_make_ready(const ExpertsArgs& args, cudaStream_t stream);
Status launch_experts(const ExpertsArgs& args, int ctas, cudaStream_t stream);

// Shared memory of a CTA, in bytes.
int experts_shared_bytes(const cuda::ExpertGemmArgs& args);

}  // namespace octet::sm90
