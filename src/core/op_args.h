// SPDX-License-Identifier: Apache-2.0
// The arguments of every operation, once for all backends: named fields with dtype and [shape]. All tensors are
// row-major and contiguous, checked by whoever fills the struct (dispatch/op_*.cc); outputs are caller's memory.
// What an operation computes: semantics.md, by the section given.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/shape.h"

namespace octet {

// mxfp8_quantize, section 3.
struct QuantizeArgs {
  const Bf16* x;  // [T, K], K a multiple of 32
  int64_t tokens, width;
  ScaleLayout layout;
  uint8_t* x_quant;  // [T, K] e4m3
  uint8_t* x_scale;  // scale_bytes(layout, T, K/32) ue8m0; padding is written as 0
};

// Token ids may be int32 or int64. (constexpr: device code reads them, too.)
struct TokenIds {
  const void* data = nullptr;
  bool is_i64 = false;
  constexpr int64_t operator[](int64_t i) const {
    return is_i64 ? static_cast<const int64_t*>(data)[i] : static_cast<const int32_t*>(data)[i];
  }
};

// topk, sections 4 and 11.
struct TopkArgs {
  const float* logits;  // [T, E]
  int64_t tokens, experts;
  RouterSpec router;
  const float* bias = nullptr;     // [E]; dsv4, deepseek_v3
  const float* bias_vl = nullptr;  // [E] or null; dsv4, hash
  TokenIds input_ids;              // [T] or null; with bias_vl, and for hash
  const int32_t* table = nullptr;  // [vocab, k]; hash. Ids in the table are in [0, E)
  int64_t vocab = 0;
  int32_t* topk_ids;    // [T, k]
  float* topk_weights;  // [T, k]
};

// route, section 5. ctas = routing::max_tiles(T, k, E, 8).
struct RouteArgs {
  TokenIds topk_ids;  // [T, k], any values
  int64_t tokens, top_k, experts;
  int32_t* permuted;         // [T, k]
  int32_t* record;           // [4 + 2 C + 8 ctas]
  int64_t first_expert = 0;  // ids first_expert ... + experts - 1 are experts 0 ... of the record
};

// front: topk, mxfp8_quantize (linear) and route in one, the same bytes. sections 3-5.
struct FrontArgs {
  QuantizeArgs quantize;
  TopkArgs topk;
  int32_t* permuted;  // [T, k]
  int32_t* record;
};

// gemm1, section 7. Ip = padded_intermediate(intermediate) or more; ctas from T, k, E.
struct Gemm1Args {
  const uint8_t* x_quant;    // [T, H] e4m3
  const uint8_t* x_scale;    // [T, H/32] ue8m0, linear
  const int32_t* record;     // words 0 ... see routing/record.h
  const uint8_t* w13;        // [E, 2 Ip, H/2]
  const uint8_t* w13_scale;  // [E, 2 Ip, H/32]
  const float* clamp;        // [E]
  int64_t tokens, top_k, experts, hidden, padded, intermediate;
  uint8_t* h_values;  // [8 ctas, Ip] e4m3; rows beyond a tile's limit are not written
  uint8_t* h_scales;  // [ctas * Ip * 4] ue8m0; likewise
};

// gemm2, section 8.
struct Gemm2Args {
  const uint8_t* h_values;  // [8 ctas, Ip] e4m3
  const uint8_t* h_scales;  // [ctas * Ip * 4] ue8m0
  const int32_t* record;
  const uint8_t* w2;        // [E, H, Ip/2]
  const uint8_t* w2_scale;  // [E, H, Ip/32]
  int64_t tokens, top_k, experts, hidden, padded;
  Bf16* gemm2_rows;  // [T k 8, H]; only rows below a tile's limit are written
};

// finalize, section 8.
struct FinalizeArgs {
  const Bf16* rows;              // [N, H]
  const float* topk_weights;     // [T, k]
  const int32_t* permuted;       // [T, k], below N; negative: skipped
  const Bf16* shared = nullptr;  // [T, H] or null
  float scale = 1.0F;
  int64_t tokens, top_k, hidden;
  Bf16* y;  // [T, H]
};

// prepare, section 6.
struct PrepareArgs {
  const uint8_t *gate, *up;              // [E, I, H/2]
  const uint8_t *gate_scale, *up_scale;  // [E, I, H/32]
  const uint8_t* down;                   // [E, H, I/2]
  const uint8_t* down_scale;             // [E, H, I/32]
  float limit;
  int64_t experts, hidden, intermediate;
  uint8_t *w13, *w13_scale, *w2, *w2_scale;
  float* clamp;  // [E]
};

struct UnprepareArgs {
  const uint8_t *w13, *w13_scale, *w2, *w2_scale;
  int64_t experts, hidden, padded, intermediate;
  uint8_t *gate, *up, *gate_scale, *up_scale, *down, *down_scale;
};

// moe_sort, section 10. max tiles = routing::max_tiles(T, k, local_experts, tile).
struct SortArgs {
  TokenIds topk_ids;  // [T, k]
  int64_t tokens, top_k, tile, local_offset, local_experts;
  int32_t* tile_to_expert;        // [max tiles]
  int32_t* tile_to_mn_limit;      // [max tiles]
  int32_t* expanded_to_permuted;  // [T, k]
  int32_t* permuted_to_expanded;  // [max tiles * tile]
  int32_t* num_tiles;             // [1]
};

// moe_permute, section 10.
struct PermuteArgs {
  const Bf16* x;                        // [T, H]
  const int32_t* permuted_to_expanded;  // [route_slots]
  const int32_t* tile_to_mn_limit;      // [max tiles]
  int64_t num_tiles, top_k, tile, hidden, route_slots;
  Bf16* permuted_x;  // [route_slots, H]; rows without a slot are 0
};

// grouped_moe, section 10: NVFP4 x BF16, unweighted rows in permuted order.
struct GroupedMoeArgs {
  const Bf16* x;            // [T, H]
  const int32_t* topk_ids;  // [T, k]
  const uint8_t* w1;        // [E, 2 I, H/2]: 64 up rows, then their 64 gate rows, ...
  const uint8_t* w1_sf;     // [E, scale_bytes(128x4, 2 I, H/16)] e4m3
  const float* w1_alpha;    // [E]
  const uint8_t* w2;        // [E, H, I/2]
  const uint8_t* w2_sf;     // [E, scale_bytes(128x4, H, I/16)] e4m3
  const float* w2_alpha;    // [E]
  int64_t tokens, top_k, experts, hidden, intermediate;
  Precision precision = Precision::kFast;
  Bf16* y;                        // [route_slots, H]; rows without a slot are not written
  int32_t* expanded_to_permuted;  // [T, k]
};

// dequantize: element * block scale * factor, one rounding at the factor. sections 1 and 2.
struct DequantizeArgs {
  WeightFormat format;
  const uint8_t* weight;  // [rows, K/2]
  const uint8_t* scale;   // [rows, K/G]
  const float* global_scale =
      nullptr;  // [num_globals] or null; row r uses r / (rows / num_globals)
  int64_t num_globals = 0;
  int64_t rows, width;  // width = K
  float* value;         // [rows, K]
};

// quantize_weight [D]: MXFP4 scales round up, NVFP4 global = amax / 2688, elements to nearest even.
struct QuantizeWeightArgs {
  WeightFormat format;
  const float* value_f32 = nullptr;  // [rows, K], or
  const Bf16* value_bf16 = nullptr;  // [rows, K]; all finite
  int64_t rows, width;
  uint8_t* weight;                // [rows, K/2]
  uint8_t* scale;                 // [rows, K/G]
  float* global_scale = nullptr;  // [1]; NVFP4 only
};

}  // namespace octet
