// SPDX-License-Identifier: Apache-2.0
// Shared memory of the expert GEMMs, and what their warps tell each other.
//
// Hand-over     filled by                   waited on by      says
// full[s]       kWeights, kTokens + bytes   kMultiply         stage s has landed
// empty[s]      kMultiply's commit          kWeights, kTokens stage s and its columns of scales have been read
// sums_full[a]  kMultiply's commit          kStore            sums a are whole
// sums_empty[a] kStore, a lane a warp       kMultiply         sums a have been read
// kAmaxBarrier  kStore                      kStore            amax[n % 2] of item n is written (a barrier of threads; GEMM1)
// barrier 0     all                         all               barriers, tensor memory, the record, GEMM1: x's scales are there; at the end: all is read
#pragma once

#include <cstdint>

#include "cuda/warp.cuh"
#include "sm100/gemm_args.h"
#include "sm100/gemm_plan.h"
#include "sm100/order.h"
#include "sm100/ptx/mbarrier.cuh"

namespace octet::sm100 {

// Warps of a CTA. kStore's read the quarter of tensor memory that is theirs: lanes 32 (warp % 4) ...
struct Role {
  static constexpr int kWeights = 0, kTokens = 1, kMultiply = 2, kAllocate = 3, kStore = 4;
  static constexpr int kStoreWarps = 4;
};
static_assert(kThreads == (Role::kStore + Role::kStoreWarps) * cuda::kWarp);
constexpr int kAmaxBarrier = 1;

template <class Traits>
struct Control {
  alignas(16) int32_t record[kMostRecordWords];
  uint64_t full[Traits::kMostStages], empty[Traits::kMostStages];
  uint64_t sums_full[kSumStages], sums_empty[kSumStages];
  uint32_t tensor_memory;                                         // of the allocation
  float amax[2][Role::kStoreWarps][static_cast<int>(kTileRows)];  // of a warp's 16 columns of h
};

// Dynamic shared memory, taken apart.
template <class Traits>
struct Shared {
  using Layout = StageLayout<Traits>;
  static_assert(sizeof(Control<Traits>) <= kControlBytes);
  uint8_t* base;  // aligned to 1024
  int stages;

  __device__ __forceinline__ uint8_t* stage(int s) const { return base + s * Layout::kBytes; }
  __device__ __forceinline__ Control<Traits>& control() const {
    return *reinterpret_cast<Control<Traits>*>(base + stages * Layout::kBytes);
  }
  // GEMM1: of chunk c eight lines of 16 bytes, a token's four scales first in each.
  __device__ __forceinline__ uint8_t* x_scales(int chunk) const {
    return base + stages * Layout::kBytes + kControlBytes + chunk * kTokenScaleBytes;
  }
};

// This CTA's.
template <class Traits>
__device__ __forceinline__ Items items_of(const GemmKernelArgs& a, const Control<Traits>& c) {
  return Items(static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x), c.record[1], a.blocks);
}

// By all threads: the tables that all roles read. Not from the SM's own cache: GEMM2 asks before it waits for the kernel ahead of it.
template <class Traits>
__device__ __forceinline__ void read_record(const GemmKernelArgs& a, Control<Traits>& c,
                                            int thread) {
  const int words = routing::record_words<int>(a.most_tiles);
  for (int i = thread; i < words / 4; i += kThreads)
    reinterpret_cast<int4*>(c.record)[i] = __ldcg(reinterpret_cast<const int4*>(a.record) + i);
}

}  // namespace octet::sm100
