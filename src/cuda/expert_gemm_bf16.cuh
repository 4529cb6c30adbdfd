// SPDX-License-Identifier: Apache-2.0
// One of the two expert GEMMs on BF16 tensor cores: a CTA of 16 warps, each with a slice of K whose activations stay in registers
// and a ring in shared memory of its own through which its weights stream.
//
//   m = weight rows (16 a strip), n = the 8 rows of a tile, k = H or I
//   warp     slice w % S of strip w / S of the unit: up to 5 pair records (320 of K), no barrier between its loads and its sums
//   unit     16 / S strips of one tile; a CTA has a contiguous range of them, tile after tile
//   sum      a slice accumulates over its records, even and odd halves apart; slices by four running sums, then a tree: fixed by shape
//
// Handoff                filled by             read by                   protected by
// ring[warp][slot]       the warp's lanes      the warp                  wait_for_copies, __syncwarp
// part[buffer][warp]     each of a strip's     one of them, in turn,     full[buffer][strip], empty[buffer][strip]
//                        warps                 after its next slice
// record, row_slots      all threads, once     all                       __syncthreads
#pragma once

#include <cstdint>

#include "cuda/async_copy.cuh"
#include "cuda/expert_gemm.h"
#include "cuda/launch.h"
#include "cuda/mbarrier.cuh"
#include "cuda/routed_rows.cuh"
#include "cuda/stream_codes.cuh"
#include "cuda/swiglu.cuh"
#include "cuda/warp.cuh"

namespace octet::cuda {

enum class GemmPhase { kUp, kDown };

constexpr int kGemmWarps = 16;
constexpr int kGemmThreads = kGemmWarps * kWarp;
constexpr int kSlicePairs = 5;
constexpr int kPartBuffers = 3;
constexpr int kSharedTiles = 64;  // records of so many tiles are read once a CTA

// In front of the rings.
struct GemmShared {
  float4 part[kPartBuffers][kGemmWarps][kWarp];  // sums of slices
  uint64_t full[kPartBuffers][kGemmWarps], empty[kPartBuffers][kGemmWarps];
  int32_t record[4 + 10 * kSharedTiles];
  int32_t row_slots[8 * kSharedTiles];
};
constexpr int kGemmSharedBytes = static_cast<int>(round_up(sizeof(GemmShared), 128));

// How a matrix is cut, from its shape alone.
struct GemmCut {
  int32_t strips, pairs, stage_pairs;
  int32_t parts;            // slices a stage
  int32_t slices;           // of a strip
  int32_t slices_together;  // that warps have at once
  int32_t rounds;           // of them
  int32_t strips_together;  // strips a unit
  int32_t strips_of_units;  // of all units of a tile
  explicit GemmCut(const layouts::StreamMatrix& m)
      : strips(static_cast<int32_t>(m.strips)),
        pairs(static_cast<int32_t>(m.pairs)),
        stage_pairs(static_cast<int32_t>(m.stage_pairs)),
        parts(static_cast<int32_t>(ceil_div(m.stage_pairs, kSlicePairs))),
        slices(static_cast<int32_t>(m.num_stages()) * parts),
        slices_together(static_cast<int32_t>(ceil_div(slices, ceil_div(slices, kGemmWarps)))),
        rounds(static_cast<int32_t>(ceil_div(slices, kGemmWarps))),
        strips_together(rounds == 1 ? kGemmWarps / slices : 1),
        strips_of_units(units() * strips_together) {}
  __host__ __device__ int32_t units() const {
    return (strips + strips_together - 1) / strips_together;
  }
};

struct GemmKernelArgs {
  ExpertGemmArgs args;
  RoutedRows routed;
  GemmCut cut;
  const uint8_t* matrix;  // the first expert's
  int64_t expert_bytes;
  int32_t ring_slots;   // 1 ... 4
  int32_t k_blocks;     // of h's fragments: 32 of K each
  uint32_t* fragments;  // [ctas][k_blocks][32 lanes][4] bf16 pairs: h as GEMM2 reads it
  float* hidden;  // [8 ctas, hidden_stride] f32: h before its quantisation; mxfp8 activations only
  int32_t hidden_stride;
};

// Where h column i of a tile's row n lies among the fragments, in bf16 elements; k = down_start + i.
__device__ __forceinline__ int64_t fragment_index(int32_t k_blocks, int32_t tile, int n, int k) {
  const int in_half = k % 16;
  return ((int64_t{tile} * k_blocks + k / 32) * kWarp + 4 * n + in_half / 4) * 8 + k % 32 / 16 * 4 +
         in_half % 4;
}

// Zeros around h's own columns in the fragments of a tile's row n, where w2's K has padding: by a warp.
__device__ __forceinline__ void clear_padding(const GemmKernelArgs& a, int32_t tile, int n) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  auto* const h = reinterpret_cast<uint16_t*>(a.fragments);
  const auto start = static_cast<int32_t>(a.args.weights.sizes.down_start);
  for (int32_t k = lane; k < start; k += kWarp) h[fragment_index(a.k_blocks, tile, n, k)] = 0;
  for (auto k = start + static_cast<int32_t>(a.args.intermediate) + lane; k < 32 * a.k_blocks;
       k += kWarp) {
    h[fragment_index(a.k_blocks, tile, n, k)] = 0;
  }
}

// Records first ... first + count - 1 along K: a part of a stage.
struct Slice {
  int32_t first = 0, count = 0;
  int32_t in_stage = 0;       // records of the stage a strip
  int32_t stage_records = 0;  // a strip's before the stage
  int32_t from = 0;           // first, counted in the stage
  __device__ __forceinline__ void set(const GemmCut& c, int32_t slice) {
    const int32_t stage = slice / c.parts, part = slice - stage * c.parts;
    stage_records = stage * c.stage_pairs;
    in_stage = min(c.stage_pairs, c.pairs - stage_records);
    const int32_t a_part = (in_stage + c.parts - 1) / c.parts;
    from = part * a_part;
    count = max(0, min(a_part, in_stage - from));
    first = stage_records + from;
  }
};

// `bytes` of a slice into a slot of the warp's ring, 16 a lane and turn.
template <int kSlotBytes>
__device__ __forceinline__ void copy_slot(uint8_t* slot, const uint8_t* from, int bytes, int lane) {
  const uint64_t policy =
      evict_first_policy();  // made anew: two registers would hold it over the sums
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(slot)) + 16 * lane;
  from += 16 * lane;
  bytes -= 16 * lane;
#pragma unroll
  for (int at = 0; at < kSlotBytes; at += 16 * kWarp) {
    if (at < bytes) copy_16_async(to + at, from + at, policy);
  }
}

// Four and four neighbours of K that a lane has of a block of 32: from 4 t and from 16 + 4 t on.
struct Halves {
  uint2 of[2] = {make_uint2(0, 0), make_uint2(0, 0)};
};

// E4M3 codes times 2^(scale - 127) as BF16 pairs, exact (semantics.md section 1). No NaN codes: the quantisation makes none.
__device__ __forceinline__ uint2 widen_mxfp8(uint32_t codes, uint32_t scale) {
  const uint32_t factor = scale == 0 ? 0x40U : scale << 7;
  const uint32_t times = factor | factor << 16;
  uint32_t out[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t two = codes >> (16 * i);
    const uint32_t spread = (two & 0xFFU) << 8 | (two & 0xFF00U) << 16;  // in the high bytes
    const uint32_t bits = (spread & 0x80008000U) | (spread >> 4 & 0x07F007F0U);
    out[i] = mul_bf16x2(mul_bf16x2(bits, power_bf16x2(120)), times);
  }
  return make_uint2(out[0], out[1]);
}

// 448 times such a scale is more than BF16 has: the slice's activations of that row are held 2^-kHold times themselves.
constexpr uint32_t kHeldFrom = 247;
constexpr int kHold = 16;

__device__ __forceinline__ Halves load_bf16(const ExpertGemmArgs& args, int64_t at) {
  Halves h;
  h.of[0] = *reinterpret_cast<const uint2*>(args.x + at);
  h.of[1] = *reinterpret_cast<const uint2*>(args.x + at + 16);
  return h;
}
__device__ __forceinline__ Halves load_mxfp8(const ExpertGemmArgs& args, int64_t at, bool is_held) {
  const uint32_t scale = args.x_scale[at / 32];
  const uint32_t used = is_held ? (scale > kHold ? scale - kHold : 0U) : scale;
  Halves h;
  h.of[0] = widen_mxfp8(*reinterpret_cast<const uint32_t*>(args.x_quant + at), used);
  h.of[1] = widen_mxfp8(*reinterpret_cast<const uint32_t*>(args.x_quant + at + 16), used);
  return h;
}
__device__ __forceinline__ Halves load_fragment(const GemmKernelArgs& a, int32_t tile,
                                                int32_t k_block, int lane) {
  const uint4 four = __ldcg(reinterpret_cast<const uint4*>(a.fragments) +
                            (int64_t{tile} * a.k_blocks + k_block) * kWarp + lane);
  Halves h;
  h.of[0] = make_uint2(four.x, four.y);
  h.of[1] = make_uint2(four.z, four.w);
  return h;
}
// The activations of a slice: zeros beyond K and in columns without a row. Returns a lane mask of the rows (lane / 4) that are held.
template <class Traits, GemmPhase phase>
__device__ __forceinline__ uint32_t load_activations(const GemmKernelArgs& a,
                                                     const RoutedRows& routed, int32_t tile,
                                                     const Slice& slice,
                                                     uint32_t (&x)[kSlicePairs][8]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const ExpertGemmArgs& args = a.args;
  const int32_t row = 8 * tile + lane / 4;
  const bool has_row = row < routed.limit(tile);
  const bool is_mxfp8 = phase == GemmPhase::kUp && args.activations == Activations::kMxfp8;
  const int64_t first = phase == GemmPhase::kUp && has_row ? routed.token(row) * args.hidden : 0;
  // Blocks of 32 that the slice has: H is a multiple of 32, h's fragments are whole pairs.
  const int32_t end = phase == GemmPhase::kUp ? static_cast<int32_t>(args.hidden / 32) : a.k_blocks;
  const int32_t begin = 2 * slice.first;
  const int32_t blocks = has_row ? min(2 * slice.count, end - begin) : 0;
  bool is_held = false;
  for (int32_t b = 0; is_mxfp8 && b < blocks; ++b)
    is_held |= args.x_scale[first / 32 + begin + b] >= kHeldFrom;
#pragma unroll
  for (int b = 0; b < 2 * kSlicePairs; ++b) {
    Halves h;
    if (b < blocks) {
      const int64_t at = first + 32 * (begin + b) + 4 * (lane % 4);
      if constexpr (phase == GemmPhase::kDown) {
        h = load_fragment(a, tile, begin + b, lane);
      } else {
        h = is_mxfp8 ? load_mxfp8(args, at, is_held) : load_bf16(args, at);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint2 pair = pair_order<Traits::kOrder>(h.of[half]);
      x[b / 2][4 * (b % 2) + 2 * half] = pair.x;
      x[b / 2][4 * (b % 2) + 2 * half + 1] = pair.y;
    }
  }
  return __ballot_sync(kWholeWarp, is_held);
}

// gate and up of h columns 8 strip + g, for the tile's rows 2 t and 2 t + 1.
__device__ __forceinline__ void store_hidden(const GemmKernelArgs& a, const RoutedRows& routed,
                                             int32_t tile, int32_t expert, int32_t strip,
                                             float4 sum, float unshift) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, g = lane / 4, t = lane % 4;
  const ExpertGemmArgs& args = a.args;
  const StreamWeights& w = args.weights;
  const int32_t column = 8 * strip + g;
  if (column >= args.intermediate) return;
  const float gate_factor = unshift * (w.gate_alpha != nullptr ? w.gate_alpha[expert] : 1.0F);
  const float up_factor = unshift * (w.up_alpha != nullptr ? w.up_alpha[expert] : 1.0F);
  const float limit = w.limit != nullptr ? w.limit[expert] : FLT_MAX;
  const int64_t bias_at = expert * args.intermediate + column;
  const auto bias_of = [&](const Bf16* bias) {
    return bias == nullptr ? 0.0F : __uint_as_float(uint32_t{bias[bias_at].bits} << 16);
  };
  const float gate_bias = bias_of(w.gate_bias), up_bias = bias_of(w.up_bias);
  const float gates[2] = {sum.x, sum.y}, ups[2] = {sum.z, sum.w};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int n = 2 * t + i;
    if (8 * tile + n >= routed.limit(tile)) continue;
    const float h = swiglu(ups[i] * up_factor + up_bias, gates[i] * gate_factor + gate_bias, limit,
                           args.alpha, args.beta);
    if (a.hidden != nullptr) {
      a.hidden[(int64_t{tile} * 8 + n) * a.hidden_stride + column] = h;
    } else {
      const int k = static_cast<int>(w.sizes.down_start) + column;
      reinterpret_cast<__nv_bfloat16*>(a.fragments)[fragment_index(a.k_blocks, tile, n, k)] =
          __float2bfloat16_rn(h);
    }
  }
}

// 16 outputs of the tile's rows: after the transposes a lane has 4 neighbours of row g.
__device__ __forceinline__ void store_rows(const GemmKernelArgs& a, const RoutedRows& routed,
                                           int32_t tile, int32_t expert, int32_t strip, float4 sum,
                                           float unshift) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, g = lane / 4, t = lane % 4;
  const ExpertGemmArgs& args = a.args;
  const StreamWeights& w = args.weights;
  const float factor = unshift * (w.down_alpha != nullptr ? w.down_alpha[expert] : 1.0F);
  float bias[2] = {0, 0};
  if (w.down_bias != nullptr) {
    const Bf16* from = w.down_bias + expert * args.hidden + 16 * strip;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const auto at = static_cast<int>(layouts::stream_down_row(g + 8 * r));
      bias[r] = __uint_as_float(uint32_t{from[at].bits} << 16);
    }
  }
  const uint32_t low =
      transpose_8x8(round_bf16x2(sum.x * factor + bias[0], sum.y * factor + bias[0]));
  const uint32_t high =
      transpose_8x8(round_bf16x2(sum.z * factor + bias[1], sum.w * factor + bias[1]));
  const int32_t row = 8 * tile + g;
  if (row >= routed.limit(tile)) return;
  Bf16* const out = args.rows + int64_t{routed.slot(row)} * args.hidden + 16 * strip + 4 * t;
  *reinterpret_cast<uint2*>(out) = make_uint2(low, high);
}

}  // namespace octet::cuda
