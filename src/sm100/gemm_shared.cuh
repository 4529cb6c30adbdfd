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

#include "cuda/prepared_hidden.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/warp.cuh"
#include "sm100/order.h"

namespace octet::sm100 {

using cuda::Gemm1KernelArgs;
using cuda::Gemm2KernelArgs;
using cuda::GemmKernelArgs;
using cuda::GemmLaunch;
using cuda::Items;
using cuda::RingPlace;

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

template <class Traits>
__device__ __forceinline__ cuda::SharedRecord record_of(const GemmKernelArgs& a,
                                                        const Control<Traits>& c) {
  return {c.record, a.most_tiles};
}
// This CTA's.
template <class Traits>
__device__ __forceinline__ Items items_of(const GemmKernelArgs& a, const Control<Traits>& c) {
  return Items(static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x), record_of(a, c).tiles(),
               a.blocks);
}

}  // namespace octet::sm100
