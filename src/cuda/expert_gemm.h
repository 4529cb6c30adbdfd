// SPDX-License-Identifier: Apache-2.0
// What every pair of expert GEMMs on a device takes: the routed experts from x and the routing record to unweighted rows.
//
//   x [T, H] bf16, or x_quant [T, H] e4m3 with x_scale [T, H/32] ue8m0 ──┐
//   record, permuted (route.cuh) ────────────────────────────────────────┼──► GEMM1 ─► SwiGLU ─► h ─► GEMM2 ──► rows [T k, H] bf16
//   weights (layouts/stream_fp4.h) ──────────────────────────────────────┘                              └─────► slot_row [T, k]
//
// h never goes through BF16 where activations are MXFP8. semantics.md sections 7 to 9.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/shape.h"
#include "layouts/stream_fp4.h"
#include "octet/status.hpp"

namespace octet::cuda {

// The local experts of a layer in device memory. Pointers that may be null stand for arrays of the value said.
struct StreamWeights {
  const uint8_t* data = nullptr;  // [local experts] of sizes.expert_bytes(), 128-byte aligned
  layouts::StreamSizes sizes;
  layouts::StreamOrder order = layouts::StreamOrder::kBf16;
  // Some scale is layouts::StreamScale::kWide or more; kInfinite.
  bool is_wide = false, is_infinite = false;
  int64_t experts = 0;  // local ones
  // fp32 factors of the accumulators, [local experts]; null: 1. NVFP4 only.
  const float *gate_alpha = nullptr, *up_alpha = nullptr, *down_alpha = nullptr;
  const float* limit = nullptr;  // [local experts], the clamp of SwiGLU; null: none
  // Added after the factors; null: 0.
  const Bf16 *gate_bias = nullptr, *up_bias = nullptr;  // [local experts, I]
  const Bf16* down_bias = nullptr;                      // [local experts, H]
};

struct ExpertGemmArgs {
  StreamWeights weights;
  int64_t tokens = 0, top_k = 0;         // T and k any
  int64_t hidden = 0, intermediate = 0;  // H a multiple of 32; I any
  Activations activations = Activations::kBf16;
  float alpha = 1.0F, beta = 0.0F;  // of SwiGLU
  // The activations: x, or x_quant and x_scale; 16-byte aligned.
  const Bf16* x = nullptr;           // [T, H]
  const uint8_t* x_quant = nullptr;  // [T, H] e4m3
  const uint8_t* x_scale = nullptr;  // [T, H/32] ue8m0, linear
  // Of `route` over the local experts (ids less first_expert): 8 padded rows a tile.
  const int32_t* record = nullptr;    // [routing::record_words(ctas)]
  const int32_t* permuted = nullptr;  // [T, k]: padded row, or -1
  int32_t most_ctas = 0;              // of a grid; 0: as many as the device has multiprocessors
  void* workspace = nullptr;          // what a kernel keeps there, as it says; 256-byte aligned
  int64_t workspace_bytes = 0;
  // Out. Rows of slots whose expert is not local are not written.
  Bf16* rows = nullptr;  // [T k, H], row = slot t k + j; 16-byte aligned
  int32_t* slot_row =
      nullptr;  // [T, k]: the slot's row in `rows`, or -1: finalize's `permuted`. An id that occurs
                // twice in a row has the first one's row in both slots
};

}  // namespace octet::cuda
