// SPDX-License-Identifier: Apache-2.0
// kMultiply of the experts' kernel: four warpgroups, each with its own stages in its own turn.
#pragma once

#include <cuda_bf16.h>

#include "cuda/bf16_mma.cuh"
#include "cuda/swiglu.cuh"
#include "sm90/experts_shared.cuh"
#include "sm90/hidden_mxfp8.cuh"
#include "sm90/ptx/relaxed.cuh"
#include "sm90/stage.cuh"
#include "sm90/stage_bf16.cuh"

namespace octet::sm90 {

// All lanes of a warp: whether this one is the last of `of` to come to `counter`, which then starts again at 0. What the others wrote
// to shared memory before is visible to the last.
__device__ __forceinline__ bool comes_last(uint32_t& counter, uint32_t of, int lane) {
  __syncwarp();
  uint32_t before = 0;
  if (lane == 0) {
    __threadfence_block();
    before = atomicAdd(&counter, 1U);
    __threadfence_block();
    if (before == of - 1) counter = 0;
  }
  const bool is_last = __shfl_sync(cuda::kWholeWarp, before, 0) == of - 1;
  __syncwarp();  // lanes see what lane 0 has seen
  return is_last;
}

__device__ __forceinline__ float bf16_at(const Bf16* p) {
  return __uint_as_float(static_cast<uint32_t>(__ldg(reinterpret_cast<const uint16_t*>(p))) << 16);
}
// The fixed tree of work.h, and what is not in the weights yet.
__device__ __forceinline__ float finished(float p0, float p1, float p2, float p3, float factor) {
  return __fmul_rn(__fadd_rn(__fadd_rn(p0, p1), __fadd_rn(p2, p3)), factor);
}
// That factor of gate and up, and of the second matrices, of a tile.
template <class Traits>
__device__ __forceinline__ float2 up_factors(const SharedOf<Traits>& s, int tile) {
  if constexpr (Traits::kActivations == Activations::kMxfp8) {
    return make_float2(kWeightUnit, kWeightUnit);
  } else {
    return make_float2(s.gate_factor[tile], s.up_factor[tile]);
  }
}
template <class Traits>
__device__ __forceinline__ float down_factor(const SharedOf<Traits>& s, int tile) {
  if constexpr (Traits::kActivations == Activations::kMxfp8) {
    return kWeightUnit;
  } else {
    return s.down_factor[tile];
  }
}

// A block of 32 columns of h, f32 [4 quarters][8 tokens of 16][8] in shared memory, to the tile's records. Lane 4 g + t: token g, quarter t.
__device__ __forceinline__ void store_hidden(const ExpertsKernelArgs<Mxfp8Mxfp4>& a,
                                             const float* values, const Tile& tile, uint8_t* h,
                                             int block, int lane) {
  const int token = lane / 4, quarter = lane % 4;
  float v[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = values[quarter * 128 + token * 8 + i];
  QuantizedEight q = quantize_h(v);
  const int rows = rows_of(tile), padded = ActivationRecord::padded_rows(rows);
  const int before = __popc(tile.tokens & ((1U << token) - 1));
  const bool is_row = (tile.tokens >> token & 1) != 0;
  const int row = is_row ? before : rows + token - before;  // behind the rows: padding, of zeros
  if (row >= padded) return;
  if (!is_row) q = {0, 0, 127};
  const int k = block * static_cast<int>(kMxBlock);
  const auto store = [&](int at, const QuantizedEight& e) {
    ptx::store_relaxed(h + ActivationRecord::code_at(padded, row, at + 8 * quarter),
                       make_uint2(e.low, e.high));
    if (quarter == 0)
      ptx::store_relaxed(h + ActivationRecord::scale_at(padded, row, at), scale_bits(e.code));
  };
  store(k, q);
  if (block == a.plan.w13.units() - 1 && block % 2 == 0)  // a last record that I half fills
    store(k + static_cast<int>(kMxBlock), {0, 0, 127});
}

// The same as it is, each element rounded once.
template <WeightFormat format>
__device__ __forceinline__ void store_hidden(const ExpertsKernelArgs<Bf16Fp4<format>>& a,
                                             const float* values, const Tile& tile, uint8_t* h,
                                             int block, int lane) {
  const int token = lane / 4, quarter = lane % 4;
  if ((tile.tokens >> token & 1) == 0) return;
  const int rows = rows_of(tile), row = __popc(tile.tokens & ((1U << token) - 1)),
            k = block * static_cast<int>(kMxBlock) + 8 * quarter;
  const auto store = [&](int at, const uint32_t(&pairs)[4]) {
    uint8_t* const to = h + Bf16Record::at(rows, row, at);
    ptx::store_relaxed(to, make_uint2(pairs[0], pairs[1]));
    ptx::store_relaxed(to + 16, make_uint2(pairs[2], pairs[3]));
  };
  uint32_t pairs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float* const two = values + quarter * 128 + token * 8 + 2 * i;
    pairs[i] = cuda::round_bf16x2(two[0], two[1]);
  }
  store(k, pairs);
  if (block == a.plan.w13.units() - 1 && block % 2 == 0)  // a last record that I half fills
    store(k + static_cast<int>(kMxBlock), {0, 0, 0, 0});
}

// The warp that brings the last sums of its 16 rows: the tree, biases, SwiGLU; and the one that brings the block's last eight columns.
template <class Traits>
__device__ __forceinline__ void finish_up(const ExpertsKernelArgs<Traits>& a, SharedOf<Traits>& s,
                                          const Rings<Traits>& rings, const StageEnd& d, int warp) {
  const int lane = cuda::lane_here();
  const int num_parts = a.plan.parts;
  float4* const buffer = rings.parts + d.buffer * num_parts * 128;
  float4 p[kPartials];
#pragma unroll
  for (int j = 0; j < kPartials; ++j)
    p[j] = j < num_parts ? buffer[j * 128 + warp * 32 + lane]
                         : make_float4(-0.0F, -0.0F, -0.0F, -0.0F);
  const Tile tile = s.tiles[d.tile];
  const float2 factors = up_factors<Traits>(s, d.tile);
  float gate[2] = {finished(p[0].x, p[1].x, p[2].x, p[3].x, factors.x),
                   finished(p[0].y, p[1].y, p[2].y, p[3].y, factors.x)};
  float up[2] = {finished(p[0].z, p[1].z, p[2].z, p[3].z, factors.y),
                 finished(p[0].w, p[1].w, p[2].w, p[3].w, factors.y)};
  if (a.gate_bias != nullptr) {
    const int64_t at =
        (int64_t{tile.expert} * a.plan.w13.units() + d.unit) * kMxBlock + warp * 8 + lane / 4;
    const float g = bf16_at(a.gate_bias + at), u = bf16_at(a.up_bias + at);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      gate[i] = __fadd_rn(gate[i], g);
      up[i] = __fadd_rn(up[i], u);
    }
  }
  // Where this warp's first sums were: its [8 tokens][8 columns]
  float* values = reinterpret_cast<float*>(buffer) + warp * 128;
  __syncwarp();  // every lane has read them
#pragma unroll
  for (int i = 0; i < 2; ++i)
    values[(2 * (lane % 4) + i) * 8 + lane / 4] =
        cuda::swiglu(up[i], gate[i], s.limits[d.tile], a.alpha, a.beta);
  if (!comes_last(s.blocks_in[d.buffer], 4, lane)) return;
  store_hidden(a, reinterpret_cast<const float*>(buffer), tile,
               s.h + int64_t{d.tile} * a.plan.h_tile_bytes(), d.unit, lane);
}

// Sums of a unit that has come to its end, 16 columns a warp, to the rows of its tile.
template <class Traits>
__device__ __forceinline__ void store_rows(const ExpertsKernelArgs<Traits>& a, const Shared& s,
                                           const StageEnd& d, const float (&sum)[4], int warp,
                                           int lane) {
  if (warp >= a.plan.w2.strips_in(d.unit)) return;
  const int column = d.unit * 64 + warp * 16;
  float v[4] = {sum[0], sum[1], sum[2], sum[3]};
  if (a.down_bias != nullptr) {
    const Bf16* bias = a.down_bias + int64_t{s.tiles[d.tile].expert} * a.hidden + column +
                       layouts::stream_down_row(cuda::lane_here() / 4);
    const float low = bf16_at(bias), high = bf16_at(bias + 2);
    v[0] = __fadd_rn(v[0], low);
    v[1] = __fadd_rn(v[1], low);
    v[2] = __fadd_rn(v[2], high);
    v[3] = __fadd_rn(v[3], high);
  }
  const auto pair = [](float x, float y) {
    const __nv_bfloat162 two = __floats2bfloat162_rn(x, y);
    return *reinterpret_cast<const uint32_t*>(&two);
  };
  const uint32_t first = cuda::transpose_8x8(pair(v[0], v[1])),
                 second = cuda::transpose_8x8(pair(v[2], v[3]));
  const int row = lane / 4;
  if (row >= d.rows) return;
  ptx::store_relaxed(s.rows + int64_t{s.slots[d.tile * 8 + row]} * a.hidden + column + lane % 4 * 4,
                     make_uint2(first, second));
}

// A stage in the arithmetic of its formats.
template <class Traits, int kPairs, bool kAnyScale>
__device__ __forceinline__ void add_stage_of(float (&acc)[4], const uint8_t* weights,
                                             const uint8_t* x, int rows, int pairs, int lane) {
  if constexpr (Traits::kActivations == Activations::kMxfp8) {
    add_stage<kPairs, kAnyScale>(acc, weights, x, rows, pairs, lane);
  } else {
    add_stage_bf16<cuda::StreamTraits<Traits::kWeights, Traits::kOrder, kAnyScale>, kPairs>(
        acc, weights, x, rows, pairs, lane);
  }
}

// kPairs: of whole stages. kOneLeaf: a unit of the second matrices is one leaf.
template <int kPairs, bool kOneLeaf, bool kAnyScale, class Traits>
__device__ __forceinline__ void multiply(const ExpertsKernelArgs<Traits>& a, SharedOf<Traits>& s,
                                         const Rings<Traits>& rings, int warp, int lane) {
  const int group = warp / 4, quarter = warp % 4;
  Turn<Shared::kTurns> turn;
  constexpr int kSums = kOneLeaf ? 1 : kPartials;
  float acc[4] = {}, p[kSums][4];
  const auto clear = [&] {
#pragma unroll
    for (auto& sums : p)
      for (float& v : sums) v = -0.0F;
  };
  clear();
#pragma unroll 1
  while (true) {
    ptx::wait(s.full[group][turn.slot], turn.parity);
    const Stage stage = s.stage[group][turn.slot];
    if (stage.kind == Work::Kind::kNone) break;
    const bool is_up = stage.kind == Work::Kind::kUp;
    if (!is_up) ptx::wait(s.h_full[stage.h], stage.h_parity);
    add_stage_of<Traits, kPairs, kAnyScale>(
        acc, rings.base + stage.weights + quarter * stage.pairs * Traits::kWeightRecordBytes,
        rings.base + stage.activations, stage.padded_rows, stage.pairs, lane);
    const StageEnd d = s.stage_end[group][turn.slot];
    turn.advance();
    __syncwarp();
    if (lane == 0) ptx::arrive(s.empty[d.slot]);
    if ((d.flags & StageEnd::kEndsLeaf) == 0) continue;
    const auto finish_down = [&](const float(&sum)[4]) {
      if (lane == 0) ptx::arrive(s.h_empty[d.h_slot], d.weight);
      store_rows(a, s, d, sum, quarter, lane);
    };
    if (kOneLeaf && !is_up) {  // what the tree makes of one leaf
      const float factor = down_factor<Traits>(s, d.tile);
      const float sum[4] = {__fmul_rn(acc[0], factor), __fmul_rn(acc[1], factor),
                            __fmul_rn(acc[2], factor), __fmul_rn(acc[3], factor)};
      finish_down(sum);
#pragma unroll
      for (float& v : acc) v = 0.0F;
      continue;
    }
    const int j = kOneLeaf || is_up ? 0 : d.leaf % kPartials;
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      if (i != j) continue;
#pragma unroll
      for (int c = 0; c < 4; ++c) p[i][c] = __fadd_rn(p[i][c], acc[c]);
    }
#pragma unroll
    for (float& v : acc) v = 0.0F;
    if ((d.flags & StageEnd::kEndsShare) == 0) continue;
    if (is_up) {  // all leaves of a share are the same p[j] of work.h
      rings.parts[(d.buffer * a.plan.parts + d.leaf % kPartials) * 128 + quarter * 32 +
                  cuda::lane_here()] = make_float4(p[0][0], p[0][1], p[0][2], p[0][3]);
      if (comes_last(s.parts_in[d.buffer][quarter], static_cast<uint32_t>(a.plan.parts), lane))
        finish_up(a, s, rings, d, quarter);
    } else {
      const float factor = down_factor<Traits>(s, d.tile);
      float sum[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        sum[i] = finished(p[0][i], p[1 % kSums][i], p[2 % kSums][i], p[3 % kSums][i], factor);
      finish_down(sum);
    }
    clear();
  }
}

}  // namespace octet::sm90
