// SPDX-License-Identifier: Apache-2.0
// kAux of the experts' kernel: brings h of the tiles that come next, then adds up the rows of each token.
#pragma once

#include <cuda_bf16.h>

#include "sm90/experts_shared.cuh"
#include "sm90/ptx/mbarrier.cuh"
#include "sm90/ptx/relaxed.cuh"

namespace octet::sm90 {

// `bytes` of h to shared memory as they come: all is asked for at once, and what is not there again. A round trip to L2 beside the
// weights takes a microsecond, so that asking first and reading then would cost another.
__device__ __forceinline__ void copy_h(uint8_t* to, const uint8_t* from, int bytes, int lane) {
  constexpr int kAtOnce = 6, kStep = cuda::kWarp * 16;
  for (int at = lane * 16; at < bytes; at += kAtOnce * kStep) {
    unsigned missing = 0;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) missing |= at + i * kStep < bytes ? 1U << i : 0U;
    ptx::Watchdog watchdog;
    while (missing != 0) {
      uint4 v[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if ((missing >> i & 1) != 0) v[i] = ptx::load_relaxed(from + at + i * kStep);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if ((missing >> i & 1) == 0 || !ptx::is_there(v[i])) continue;
        *reinterpret_cast<uint4*>(to + at + i * kStep) = v[i];
        missing &= ~(1U << i);
      }
      if (missing != 0) __nanosleep(100);
      watchdog.check("h");
    }
  }
}

// Aux warp `warp`: every kAuxWarps-th visit (every one where h has one slot), so that as many round trips to L2 are under way.
__device__ __forceinline__ void bring_h(const ExpertsKernelArgs& a, Shared& s, const Rings& rings,
                                        int warp, int lane) {
  const int step = min(ExpertsPlan::kAuxWarps, a.plan.h_slots);
  if (warp >= step) return;
  for (int visit = warp;; visit += step) {
    ptx::wait(s.visit[visit % Shared::kVisits],
              static_cast<uint32_t>(visit / Shared::kVisits) & 1U);
    const int tile = s.visit_tile[visit % Shared::kVisits];
    if (tile < 0) return;
    const int slot = visit % a.plan.h_slots, turn = visit / a.plan.h_slots;
    if (turn > 0) ptx::wait(s.h_empty[slot], static_cast<uint32_t>(turn - 1) & 1U);
    const int rows = ActivationRecord::padded_rows(rows_of(s.tiles[tile]));
    copy_h(rings.base + rings.h_slot_at(a.plan, slot), a.h + int64_t{tile} * a.plan.h_tile_bytes(),
           a.plan.w2.pairs * static_cast<int>(ActivationRecord::bytes(rows)), lane);
    ptx::fence_shared_for_async();
    __syncwarp();
    if (lane == 0) ptx::arrive(s.h_full[visit % Shared::kVisits]);
  }
}

__device__ __forceinline__ void unpack(float (&to)[8], const uint4& v) {
  const uint32_t pairs[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[2 * i] = __uint_as_float(pairs[i] << 16);
    to[2 * i + 1] = __uint_as_float(pairs[i] & 0xFFFF0000U);
  }
}

// cuda/finalize_bf16.cu's arithmetic on rows as they come: y of this CTA's part of the tokens' columns, eight at a time.
__device__ __forceinline__ void finalize(const ExpertsKernelArgs& a, const Shared& s, int thread) {
  constexpr int kMostK = 8;
  const int of_a_row = a.hidden / 8, count = a.tokens * of_a_row;
  const auto grid = static_cast<int>(gridDim.x), cta = static_cast<int>(blockIdx.x);
  const int share = (count + grid - 1) / grid, end = min(count, (cta + 1) * share);
  for (int i = cta * share + thread; i < end; i += ExpertsPlan::kAuxWarps * cuda::kWarp) {
    const int token = i / of_a_row, column = i % of_a_row * 8;
    uint4 v[kMostK];
    unsigned missing = 0;
    int row[kMostK];
#pragma unroll
    for (int j = 0; j < kMostK; ++j) {
      row[j] = j < a.top_k ? s.slot_row[token * a.top_k + j] : -1;
      missing |= row[j] >= 0 ? 1U << j : 0U;
    }
    const unsigned all = missing;
    float weight[kMostK];
#pragma unroll
    for (int j = 0; j < kMostK; ++j)
      weight[j] = (all >> j & 1) != 0 ? __ldg(a.topk_weights + token * a.top_k + j) : 0.0F;
    ptx::Watchdog watchdog;
    while (missing != 0) {
#pragma unroll
      for (int j = 0; j < kMostK; ++j)
        if ((missing >> j & 1) != 0)
          v[j] = ptx::load_relaxed(a.rows + int64_t{row[j]} * a.hidden + column);
#pragma unroll
      for (int j = 0; j < kMostK; ++j)
        if ((missing >> j & 1) != 0 && ptx::is_there(v[j])) missing &= ~(1U << j);
      watchdog.check("rows");
    }
    float acc[8] = {};
#pragma unroll
    for (int j = 0; j < kMostK; ++j) {
      if ((all >> j & 1) == 0) continue;
      float r[8];
      unpack(r, v[j]);
#pragma unroll
      for (int c = 0; c < 8; ++c) acc[c] = fmaf(weight[j], r[c], acc[c]);
    }
    if (a.shared != nullptr) {
      float r[8];
      unpack(r, *reinterpret_cast<const uint4*>(a.shared + int64_t{token} * a.hidden + column));
#pragma unroll
      for (int c = 0; c < 8; ++c) acc[c] = fmaf(acc[c], a.scale, r[c]);
    } else {
#pragma unroll
      for (int c = 0; c < 8; ++c) acc[c] = __fmul_rn(acc[c], a.scale);
    }
    uint4 out;
    auto* const pairs = reinterpret_cast<__nv_bfloat162*>(&out);
#pragma unroll
    for (int c = 0; c < 4; ++c) pairs[c] = __floats2bfloat162_rn(acc[2 * c], acc[2 * c + 1]);
    *reinterpret_cast<uint4*>(a.y + int64_t{token} * a.hidden + column) = out;
  }
}

}  // namespace octet::sm90
