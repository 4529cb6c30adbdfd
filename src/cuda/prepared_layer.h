// SPDX-License-Identifier: Apache-2.0
// The first contract's layer as a chain of launches: front, gemm1, gemm2, finalize. semantics.md sections 3 to 8. Nothing of it has run on a device.
//
//   x, logits ──► front ──► x_quant, x_scale, record, permuted, topk_weights ──► gemm1 ──► h ──► gemm2 ──► rows ──► finalize ──► y
//
// front and finalize are those of every CUDA backend (cuda/front.h, finalize_bf16.h).
#pragma once

#include <cuda_runtime_api.h>

#include "core/op_args.h"
#include "cuda/prepared_gemm.h"
#include "octet/status.hpp"

namespace octet::cuda {

// Prepared tensors, bound as they are: layouts/prepared.h; layouts::check_weights() is ok. Device memory.
struct PreparedWeights {
  const uint8_t *w13 = nullptr, *w13_scale = nullptr, *w2 = nullptr, *w2_scale = nullptr;
  const float* clamp = nullptr;                                   // [E]
  int64_t experts = 0, hidden = 0, padded = 0, intermediate = 0;  // padded: Ip
};

struct DecodeArgs {
  PreparedWeights weights;
  const Bf16* x = nullptr;  // [T, H], T 0 ... 8, 16-byte aligned
  // Router dsv4, its E that of the weights; its topk_ids and topk_weights null: in the workspace.
  TopkArgs topk;
  const Bf16* shared = nullptr;  // [T, H] or null
  float scale = 1.0F;
  Bf16* y = nullptr;  // [T, H]; null: the unfinalized output in the workspace is all that is wanted
  void* workspace = nullptr;  // any content, 256-byte aligned
  int64_t workspace_bytes = 0;
  int ctas = 0;  // of gemm1 and gemm2; any number gives the same bytes
};

// What lies in the workspace. rows, permuted and topk_weights are the unfinalized output of semantics.md section 8.
struct DecodeWorkspace {
  uint8_t *x_quant, *x_scale;    // [T, H], [T, H/32]
  int32_t *topk_ids, *permuted;  // [T, k]
  float* topk_weights;           // [T, k]
  int32_t* record;
  uint8_t *h_values, *h_scales;  // [8 ctas, Ip], [ctas Ip 4]
  Bf16* rows;                    // [8 ctas, H]
  int64_t bytes;
};
// `base` null: counts only.
DecodeWorkspace decode_workspace(const PreparedWeights& weights, int64_t tokens, int64_t top_k,
                                 void* base);

// Why the chain can't run `args`; ok if it can. The device is the caller's to check.
Status check_decode(const PreparedGemms& gemms, const DecodeArgs& args);

// Enqueues on `stream`: allocates nothing, synchronises nothing, safe inside graph capture. A stream owns its workspace. Errors: those of
// the parts. gemms.prepare() has been called.
Status launch_decode(const PreparedGemms& gemms, const DecodeArgs& args, EncodeTiled encode,
                     cudaStream_t stream);

}  // namespace octet::cuda
