// SPDX-License-Identifier: Apache-2.0
// A row's top-k by one warp: router dsv4, semantics.md section 4. Expert e is lane e % 32's, its e / 32-th.
//
// Arithmetic: ex2.approx.f32 of the rounded product, logf, sqrt.approx.ftz.f32, div.full.f32; sums and products rounded to nearest:
// that of vLLM's Triton kernel, whose bits on an H200 are the truth of it.
#pragma once

#include <cstdint>

#include "core/op_args.h"
#include "routing/topk.h"

namespace octet::cuda {

constexpr unsigned kWholeWarp = 0xFFFFFFFFU;
constexpr int kWarp = 32;

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

// Row `token`, by a whole warp; kKeys * 32 experts at least. Lane j < k writes slot j and returns its id, the others -1.
template <int kKeys>
__device__ __forceinline__ int topk_row(const TopkArgs& a, int64_t token) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const float* const logits = a.logits + token * a.experts;
  const float* const bias = routing::is_image(a, token) ? a.bias_vl : a.bias;
  uint32_t keys[kKeys];
#pragma unroll
  for (int i = 0; i < kKeys; ++i) {
    const int e = i * kWarp + lane;
    keys[i] = e < a.experts ? dsv4::key_of(__fadd_rn(dsv4::raw_weight(logits[e]), bias[e])) : 0U;
  }
  const auto top_k = static_cast<int>(a.router.top_k);
  const int id = dsv4::choose(keys, top_k);
  const float raw = lane < top_k ? dsv4::raw_weight(logits[id]) : 0.0F;
  const float weight = dsv4::weight_of(raw, a.router.scale);
  if (lane >= top_k) return -1;
  a.topk_ids[token * top_k + lane] = id;
  a.topk_weights[token * top_k + lane] = weight;
  return id;
}

}  // namespace octet::cuda
