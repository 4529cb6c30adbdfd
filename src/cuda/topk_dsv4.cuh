// SPDX-License-Identifier: Apache-2.0
// The top-k of up to eight rows by one block: router dsv4, semantics.md section 4.
//
//   logits, biases ──► shared memory ──► scores, an expert a lane, all warps ──► choice, a warp a row: expert e is lane e % 32's
//
// Code that a launch meets for the first time comes slowly from memory, so the scores are a loop that is not unrolled.
//
// Arithmetic: ex2.approx.f32 of the rounded product, logf, sqrt.approx.ftz.f32, div.full.f32; sums and products rounded to nearest:
// that of vLLM's Triton kernel, whose bits on an H200 are the truth of it.
#pragma once

#include <cstdint>

#include "core/op_args.h"
#include "cuda/warp.cuh"
#include "routing/topk.h"

namespace octet::cuda {

constexpr int kTopkThreads = 512;
constexpr int kTopkRows = 8;  // of a block
// Rows whose scores a thread computes at once: as many chains to wait for together.
constexpr int kScoredTogether = 2;

// Of a block's rows.
struct TopkShared {
  static constexpr int kExperts = static_cast<int>(routing::kMaxExpertsDsv4);
  float weights[kTopkRows][kExperts];  // logits, then raw weights
  uint32_t keys[kTopkRows][kExperts];
  float bias[2][kExperts];  // and bias_vl
};

namespace dsv4 {

__device__ __forceinline__ float exp_of(float logit) {
  float e;
  asm("ex2.approx.f32 %0, %1;" : "=f"(e) : "f"(__fmul_rn(logit, 1.44269504F)));
  return e;
}
__device__ __forceinline__ float raw_weight(float logit) {
  float w;
  asm("sqrt.approx.ftz.f32 %0, %1;"
      : "=f"(w)
      : "f"(logit > 20.0F ? logit : logf(__fadd_rn(1.0F, exp_of(logit)))));
  return w;
}
__device__ __forceinline__ float divide(float a, float b) {
  float q;
  asm("div.full.f32 %0, %1, %2;" : "=f"(q) : "f"(a), "f"(b));
  return q;
}

// Its order is that of the scores: NaN ranks as -1e30, -0 as +0, -Inf above 0. 0 is no expert's.
__device__ __forceinline__ uint32_t key_of(float score) {
  const uint32_t bits = __float_as_uint(score == score ? __fadd_rn(score, 0.0F) : -1e30F);
  return bits ^ ((bits >> 31) != 0 ? 0xFFFFFFFFU : 0x80000000U);
}

// Lane j < k returns the id of slot j; `keys` are used up. No id repeats: a key that was taken becomes 0.
template <int kKeys>
__device__ __forceinline__ int choose(uint32_t (&keys)[kKeys], int top_k) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  int chosen = 0;
#pragma unroll 1
  for (int j = 0; j < top_k; ++j) {
    uint32_t best = 0;
#pragma unroll
    for (int i = 0; i < kKeys; ++i) best = max(best, keys[i]);
    best = __reduce_max_sync(kWholeWarp, best);
    uint32_t id = 0xFFFFFFFFU;  // the lowest among equals
#pragma unroll
    for (int i = kKeys - 1; i >= 0; --i)
      id = keys[i] == best ? static_cast<uint32_t>(i * kWarp + lane) : id;
    id = __reduce_min_sync(kWholeWarp, id);
#pragma unroll
    for (int i = 0; i < kKeys; ++i)
      keys[i] = id == static_cast<uint32_t>(i * kWarp + lane) ? 0U : keys[i];
    if (lane == j) chosen = static_cast<int>(id);
  }
  return chosen;
}

// Lane j < k has slot j's raw weight, the others 0: the slot's weight.
__device__ __forceinline__ float weight_of(float raw, float scale) {
  float w[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) w[j] = __shfl_sync(kWholeWarp, raw, j);
  const float even = __fadd_rn(__fadd_rn(w[0], w[4]), __fadd_rn(w[2], w[6]));
  const float odd = __fadd_rn(__fadd_rn(w[1], w[5]), __fadd_rn(w[3], w[7]));
  const float sum = __fadd_rn(even, odd);
  return __fmul_rn(raw, divide(scale, sum > 0.0F ? sum : 1.0F));
}

}  // namespace dsv4

// Rows first ... first + kTopkRows - 1 of those that there are, by kTopkThreads threads; kKeys * 32 experts at least. Writes their
// ids and weights; a __syncthreads() later the block may read them.
template <int kKeys>
__device__ __forceinline__ void topk_block(const TopkArgs& a, int64_t first, TopkShared& shared) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  const auto experts = static_cast<int>(a.experts);
  const int rows = static_cast<int>(min(a.tokens - first, int64_t{kTopkRows}));
  const float* const logits = a.logits + first * experts;
  const auto own = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int row = 0; row < kTopkRows; ++row)
    if (row < rows && own < experts) shared.weights[row][own] = logits[row * experts + own];
  if (own < experts) {
    shared.bias[0][own] = a.bias[own];
    if (a.bias_vl != nullptr) shared.bias[1][own] = a.bias_vl[own];
  }
  __shared__ bool images[kTopkRows];
  if (own < kTopkRows) images[own] = own < rows && routing::is_image(a, first + own);
  __syncthreads();
#pragma unroll 1
  for (int row = 0; row < rows; row += kScoredTogether) {
    float w[kScoredTogether];  // rows beyond the last are nobody's
#pragma unroll
    for (int i = 0; i < kScoredTogether; ++i) w[i] = dsv4::raw_weight(shared.weights[row + i][own]);
#pragma unroll
    for (int i = 0; i < kScoredTogether; ++i) {
      const float score = __fadd_rn(w[i], shared.bias[images[row + i] ? 1 : 0][own]);
      shared.weights[row + i][own] = w[i];
      shared.keys[row + i][own] = own < experts ? dsv4::key_of(score) : 0U;
    }
  }
  __syncthreads();
  if (warp >= rows) return;
  uint32_t keys[kKeys];
#pragma unroll
  for (int i = 0; i < kKeys; ++i) keys[i] = shared.keys[warp][i * kWarp + lane];
  const auto top_k = static_cast<int>(a.router.top_k);
  const int id = dsv4::choose(keys, top_k);
  const float raw = lane < top_k ? shared.weights[warp][id] : 0.0F;
  const float weight = dsv4::weight_of(raw, a.router.scale);
  if (lane >= top_k) return;
  a.topk_ids[(first + warp) * top_k + lane] = id;
  a.topk_weights[(first + warp) * top_k + lane] = weight;
}

}  // namespace octet::cuda
