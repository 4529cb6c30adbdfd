// SPDX-License-Identifier: Apache-2.0
// The top-k of up to eight rows by one block: router dsv4, semantics.md section 4.
//
//   logits, biases ──► scores, all warps in turns of 32 experts of a row ──► shared memory ──► choice, a warp a row
//
// In the choice expert e is lane e % 32's.
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

namespace dsv4 {

// Results below 2^-126 are 0: nothing beside 1, to which they are added.
__device__ __forceinline__ float exp_of(float logit) {
  float e;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(__fmul_rn(logit, 1.44269504F)));
  return e;
}
// logf of 1 to 2^126: its bits (CUDA's, tested), without its branch for other numbers.
__device__ __forceinline__ float log_of(float v) {
  constexpr uint32_t kTwoThirds = 0x3F2AAAABU, kExponent = 0xFF800000U;
  const uint32_t bits = __float_as_uint(v), exponent = (bits - kTwoThirds) & kExponent;
  const float f = __fadd_rn(__uint_as_float(bits - exponent), -1.0F);  // v / 2^e - 1: -1/3 to 1/3
  const int32_t e = static_cast<int32_t>(exponent) >> 23;
  constexpr int32_t kMagic = 0x4B400000;  // 1.5 * 2^23: adding e to it adds e to its bits
  const float e_f32 = __fadd_rn(__int_as_float(kMagic + e), -__int_as_float(kMagic));
  constexpr uint32_t kTerms[] = {0x3E1039F6, 0xBDF8CDCC, 0x3E0F2955, 0xBE2AD8B9,
                                 0x3E4CED0B, 0xBE7FFF22, 0x3EAAAA78, 0xBF000000};
  float sum = __uint_as_float(0xBE055027);
#pragma unroll
  for (const uint32_t term : kTerms) sum = __fmaf_rn(sum, f, __uint_as_float(term));
  return __fmaf_rn(e_f32, 0x1.62e430p-1F, __fmaf_rn(__fmul_rn(f, sum), f, f));
}
__device__ __forceinline__ float raw_weight(float logit) {
  const float softplus = log_of(__fadd_rn(1.0F, exp_of(logit)));
  float w;  // NaN stays itself
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(w) : "f"(logit <= 20.0F ? softplus : logit));
  return w;
}
__device__ __forceinline__ float divide(float a, float b) {
  float q;
  asm("div.full.f32 %0, %1, %2;" : "=f"(q) : "f"(a), "f"(b));
  return q;
}

// Its order is that of the scores, which are never -0 (no raw weight is): NaN ranks as -1e30, -Inf above 0. 0 is no expert's.
__device__ __forceinline__ uint32_t key_of(float score) {
  const uint32_t bits = __float_as_uint(score == score ? score : -1e30F);
  return bits ^ ((bits >> 31) != 0 ? 0xFFFFFFFFU : 0x80000000U);
}

// Lane j < k returns the id of slot j; `keys` are used up. No id repeats: a key that was taken becomes 0.
template <int kKeys>
__device__ __forceinline__ int choose_by_rounds(uint32_t (&keys)[kKeys], int top_k) {
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

// Room for one row's choice: the lanes' largest keys; the candidates, by expert.
struct ChoiceShared {
  alignas(16) uint32_t largest[kWarp];
  alignas(16) uint32_t keys[kWarp];
  int32_t ids[kWarp], chosen[kWarp];
};

// How many of the lanes' keys are larger.
__device__ __forceinline__ int rank_among(const uint32_t (&keys)[kWarp], uint32_t own) {
  int rank = 0;
#pragma unroll
  for (int i = 0; i < kWarp; i += 4) {
    const uint4 k = *reinterpret_cast<const uint4*>(&keys[i]);
    rank +=
        ((k.x > own ? 1 : 0) + (k.y > own ? 1 : 0)) + ((k.z > own ? 1 : 0) + (k.w > own ? 1 : 0));
  }
  return rank;
}

// The same as choose_by_rounds() in less than half its time: k lanes' largest keys are a bound that few keys reach, and these are ranked at
// once. Where they are more than a warp, rounds decide.
template <int kKeys>
__device__ __forceinline__ int choose(const uint32_t* row, int top_k, ChoiceShared& shared) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  uint32_t keys[kKeys], largest = 0;
#pragma unroll
  for (int i = 0; i < kKeys; ++i) {
    keys[i] = row[i * kWarp + lane];
    largest = max(keys[i], largest);
  }
  shared.largest[lane] = largest;
  shared.keys[lane] = 0;
  __syncwarp();
  const uint32_t least = __reduce_min_sync(
      kWholeWarp, rank_among(shared.largest, largest) < top_k ? largest : 0xFFFFFFFFU);
  int count = 0;
#pragma unroll
  for (int i = 0; i < kKeys; ++i) {
    const bool is_candidate = keys[i] >= least;
    const unsigned lanes = __ballot_sync(kWholeWarp, is_candidate);
    const int at = count + __popc(lanes & ((1U << lane) - 1));
    if (is_candidate && at < kWarp) {
      shared.keys[at] = keys[i];
      shared.ids[at] = i * kWarp + lane;
    }
    count += __popc(lanes);
  }
  if (count > kWarp) return choose_by_rounds(keys, top_k);
  __syncwarp();
  // Of equals the one before is larger.
  const uint32_t own = shared.keys[lane];
  int rank = 0;
#pragma unroll 1
  for (int i = 0; i < count; i += 4) {
    const uint4 k = *reinterpret_cast<const uint4*>(&shared.keys[i]);
    const auto is_above = [&](uint32_t key, int at) { return key > own - (at < lane ? 1U : 0U); };
    rank += ((is_above(k.x, i) ? 1 : 0) + (is_above(k.y, i + 1) ? 1 : 0)) +
            ((is_above(k.z, i + 2) ? 1 : 0) + (is_above(k.w, i + 3) ? 1 : 0));
  }
  if (lane < count && rank < top_k) shared.chosen[rank] = shared.ids[lane];
  __syncwarp();
  return lane < top_k ? shared.chosen[lane] : 0;
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

// Of a block's rows.
struct TopkShared {
  static constexpr int kExperts = static_cast<int>(routing::kMaxExpertsDsv4);
  float weights[kTopkRows][kExperts];  // raw
  uint32_t keys[kTopkRows][kExperts];
  dsv4::ChoiceShared choice[kTopkRows];
};

// Rows first ... first + kTopkRows - 1 of those that there are, by a block's first kTopkThreads threads; kKeys * 32 experts at least. Writes their
// ids and weights. Lane j < k of warp r returns the id of row first + r and slot j, others -1. `meanwhile()` is called while the
// logits come; they have met at a barrier since then.
template <int kKeys, class Meanwhile>
__device__ __forceinline__ int topk_block(const TopkArgs& a, int64_t first, TopkShared& shared,
                                          const Meanwhile& meanwhile) {
  constexpr int kWarps = kTopkThreads / kWarp, kTurns = kTopkRows * kKeys / kWarps;
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  const auto experts = static_cast<int>(a.experts);
  const int rows = static_cast<int>(min(a.tokens - first, int64_t{kTopkRows}));
  const float* const logits = a.logits + first * experts;
  unsigned images = 0;  // bit r: row r
  if (a.bias_vl != nullptr)
    images = __ballot_sync(kWholeWarp, lane < rows && routing::is_image(a, first + lane));
  const int pieces = rows * kKeys;
  float logit[kTurns], bias[kTurns];
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    logit[turn] = bias[turn] = 0.0F;
    const int piece = turn * kWarps + warp, row = piece / kKeys,
              expert = piece % kKeys * kWarp + lane;
    if (piece >= pieces || expert >= experts) continue;
    logit[turn] = logits[row * experts + expert];
    bias[turn] = ((images >> row & 1) != 0 ? a.bias_vl : a.bias)[expert];
  }
  meanwhile();
  // One code for all turns: where a launch meets code for the first time, it comes slowly.
#pragma unroll 1
  for (int piece = warp; piece < pieces; piece += kWarps) {
    const int row = piece / kKeys, expert = piece % kKeys * kWarp + lane;
    const float w = dsv4::raw_weight(logit[0]);
    shared.weights[row][expert] = w;
    shared.keys[row][expert] = expert < experts ? dsv4::key_of(__fadd_rn(w, bias[0])) : 0U;
#pragma unroll
    for (int turn = 1; turn < kTurns; ++turn) {
      logit[turn - 1] = logit[turn];
      bias[turn - 1] = bias[turn];
    }
  }
  meet(kTopkThreads);
  if (warp >= rows) return -1;
  const auto top_k = static_cast<int>(a.router.top_k);
  const int id = dsv4::choose<kKeys>(shared.keys[warp], top_k, shared.choice[warp]);
  const float raw = lane < top_k ? shared.weights[warp][id] : 0.0F;
  const float weight = dsv4::weight_of(raw, a.router.scale);
  if (lane >= top_k) return -1;
  a.topk_ids[(first + warp) * top_k + lane] = id;
  a.topk_weights[(first + warp) * top_k + lane] = weight;
  return id;
}

}  // namespace octet::cuda
