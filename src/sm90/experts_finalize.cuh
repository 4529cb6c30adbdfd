// SPDX-License-Identifier: Apache-2.0
// The end of the experts' kernel: kMultiply and kAux of a few CTAs add up the rows of each token.
#pragma once

#include <cuda_bf16.h>

#include "sm90/experts_shared.cuh"
#include "sm90/ptx/relaxed.cuh"

namespace octet::sm90 {

__device__ __forceinline__ void unpack(float (&to)[4], const uint2& v) {
  const uint32_t pairs[2] = {v.x, v.y};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    to[2 * i] = __uint_as_float(pairs[i] << 16);
    to[2 * i + 1] = __uint_as_float(pairs[i] & 0xFFFF0000U);
  }
}

// Of a CTA: kMultiply, and kAux, which is there first and so has the code when they come.
constexpr int kFinalizingThreads =
    ExpertsRoles::kComputeThreads + ExpertsRoles::kAuxWarps * cuda::kWarp;
constexpr int kFinalizedTogether = 4;  // columns, by a thread: half the code that eight would be

// The first CTAs of the grid, as many as have a thread for every four columns of y; the others end, and the next launch's begin on their
// SMs.
template <class Traits>
__device__ __forceinline__ int finalizers(const ExpertsKernelArgs<Traits>& a) {
  if (a.y == nullptr) return 0;
  const int count = a.tokens * a.hidden / kFinalizedTogether;
  return min((count + kFinalizingThreads - 1) / kFinalizingThreads, static_cast<int>(gridDim.x));
}

// cuda/finalize_bf16.cu's arithmetic on rows as they come: y of this CTA's part of the tokens' columns.
template <class Traits>
__device__ __forceinline__ void finalize(const ExpertsKernelArgs<Traits>& a, const Shared& s,
                                         int thread) {
  constexpr int kMostK = 8, kColumns = kFinalizedTogether;
  const int of_a_row = a.hidden / kColumns, count = a.tokens * of_a_row;
  const int step = finalizers(a) * kFinalizingThreads;
#pragma unroll 1
  for (int i = static_cast<int>(blockIdx.x) * kFinalizingThreads + thread; i < count; i += step) {
    const int token = i / of_a_row, column = i % of_a_row * kColumns;
    const int8_t* const row = s.slot_row + token * a.top_k;
    uint2 v[kMostK];
    unsigned missing = 0;
#pragma unroll
    for (int j = 0; j < kMostK; ++j) missing |= j < a.top_k && row[j] >= 0 ? 1U << j : 0U;
    const unsigned all = missing;
    ptx::Watchdog watchdog;
    while (missing != 0) {
#pragma unroll
      for (int j = 0; j < kMostK; ++j)
        if ((missing >> j & 1) != 0)
          v[j] = ptx::load_relaxed_8(s.rows + int64_t{row[j]} * a.hidden + column);
#pragma unroll
      for (int j = 0; j < kMostK; ++j)
        if ((missing >> j & 1) != 0 && ptx::is_there(v[j])) missing &= ~(1U << j);
      if (missing != 0) __nanosleep(100);
      watchdog.check("rows");
    }
    float acc[kColumns] = {};
#pragma unroll
    for (int j = 0; j < kMostK; ++j) {
      if ((all >> j & 1) == 0) continue;
      const float weight = s.weights[token * a.top_k + j];
      float r[kColumns];
      unpack(r, v[j]);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) acc[c] = fmaf(weight, r[c], acc[c]);
    }
    if (a.shared != nullptr) {
      float r[kColumns];
      unpack(r, *reinterpret_cast<const uint2*>(a.shared + int64_t{token} * a.hidden + column));
#pragma unroll
      for (int c = 0; c < kColumns; ++c) acc[c] = fmaf(acc[c], a.scale, r[c]);
    } else {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) acc[c] = __fmul_rn(acc[c], a.scale);
    }
    uint2 out;
    auto* const pairs = reinterpret_cast<__nv_bfloat162*>(&out);
#pragma unroll
    for (int c = 0; c < kColumns / 2; ++c)
      pairs[c] = __floats2bfloat162_rn(acc[2 * c], acc[2 * c + 1]);
    *reinterpret_cast<uint2*>(a.y + int64_t{token} * a.hidden + column) = out;
  }
}

}  // namespace octet::sm90
