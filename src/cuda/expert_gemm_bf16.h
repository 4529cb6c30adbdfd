// SPDX-License-Identifier: Apache-2.0
// The expert GEMMs on BF16 tensor cores, SM80 and later: weights are decoded to BF16 exactly, activations are BF16, or MXFP8, which
// BF16 holds exactly. docs/kernels/expert_gemm_bf16.md.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/expert_gemm.h"
#include "octet/status.hpp"

namespace octet::cuda {

// Bytes of ExpertGemmArgs::workspace for T rows of k ids over `experts` local ones. Any T; grows with min(T k, experts) + T k / 8.
int64_t expert_gemm_bf16_workspace_bytes(const layouts::StreamSizes& sizes, int64_t experts,
                                         int64_t tokens, int64_t top_k, int64_t intermediate,
                                         Activations activations);

// Shared memory that a block must be able to have.
int expert_gemm_bf16_shared_bytes(WeightFormat format);

// Once a layer, when it is loaded: loads the kernels that its calls take, so that no call does. Errors: kUnsupported for a matrix of
// 2^31 bytes or more, kDeviceError.
Status prepare_expert_gemm_bf16(const StreamWeights& weights);

// Intermediates for whoever asks, of the slots' rows; null: not wanted.
struct HiddenTrace {
  uint8_t* h_values = nullptr;  // [T k, I] e4m3               mxfp8 only
  uint8_t* h_scales = nullptr;  // [T k, ceil(I/32)] ue8m0
  Bf16* h = nullptr;            // [T k, I]                    bf16 only
};

// GEMM1 with SwiGLU, for MXFP8 activations the quantisation of h, GEMM2. Every field of `args` as it says. Enqueues on `stream`:
// allocates nothing, synchronises nothing, safe inside graph capture; each kernel begins before the one ahead of it has ended, and
// waits for it before it reads or writes but for weights and the record, which must be complete when the kernel ahead of GEMM1
// ends. A row's bytes depend on its token, weights and experts alone.
// Errors: kUnsupported with the value found and the value wanted: H, workspace, the device's shared memory; kDeviceError.
Status launch_expert_gemm_bf16(const ExpertGemmArgs& args, const HiddenTrace& trace,
                               cudaStream_t stream);

}  // namespace octet::cuda
