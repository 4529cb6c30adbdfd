// SPDX-License-Identifier: Apache-2.0
// What both expert GEMMs' warps share and do alike.
//
// Hand-over     filled by                   waited on by      says
// full[s]       kWeights, kTokens + bytes   kMultiply         stage s has landed
// empty[s]      kMultiply, a lane a warp    kWeights, kTokens stage s has been read
// kAmaxBarrier  kMultiply                   kMultiply         amax[n % 2] of item n is written (a barrier of threads; GEMM1)
// barrier 0     all                         all               barriers, the record, GEMM1: x's scales are there
#pragma once

#include <cstdint>

#include "cuda/async_copy.cuh"
#include "cuda/launch.h"
#include "cuda/prepared_hidden.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/tma.cuh"
#include "cuda/ptx/warp.cuh"
#include "cuda/warp.cuh"
#include "sm120/fragments.h"
#include "sm120/gemm_plan.h"
#include "sm120/ptx/mma.cuh"

namespace octet::sm120 {

using cuda::Gemm1KernelArgs;
using cuda::Gemm2KernelArgs;
using cuda::GemmKernelArgs;
using cuda::GemmLaunch;
using cuda::Items;
using cuda::RingPlace;

// Warps of a CTA: each of kMultiply's has 16 of an item's 128 weight rows.
struct Role {
  static constexpr int kWeights = 0, kTokens = 1, kMultiply = 2;
};
constexpr int kAmaxBarrier = 1;

struct Control {
  static constexpr int kMostStages = Gemm2Traits::kMostStages;
  static_assert(Gemm1Traits::kMostStages <= kMostStages);
  alignas(16) int32_t record[cuda::kMostRecordWords];
  uint64_t full[kMostStages], empty[kMostStages];
  float amax[2][kMultiplyWarps][static_cast<int>(kTileRows)];  // of a warp's 8 columns of h
};
static_assert(sizeof(Control) <= kControlBytes);

// Dynamic shared memory, taken apart.
template <class Traits>
struct Shared {
  using Layout = StageLayout<Traits>;
  uint8_t* base;  // aligned to 1024
  int stages;

  __device__ __forceinline__ uint8_t* stage(int s) const { return base + s * Layout::kBytes; }
  __device__ __forceinline__ Control& control() const {
    return *reinterpret_cast<Control*>(base + stages * Layout::kBytes);
  }
  __device__ __forceinline__ cuda::SharedRecord record(const GemmKernelArgs& a) const {
    return {control().record, a.most_tiles};
  }
  // GEMM1: [chunks][8 tokens], four scales each.
  __device__ __forceinline__ uint32_t* x_scales() const {
    return reinterpret_cast<uint32_t*>(base + stages * Layout::kBytes + kControlBytes);
  }
  // Of four times 32 k of a token.
  __device__ __forceinline__ uint32_t token_scales(int at, int chunk, int in_stage,
                                                   int token) const {
    if constexpr (Traits::kScalesInStage)
      return *reinterpret_cast<const uint32_t*>(stage(at) + Layout::token_scales_at(in_stage) +
                                                token * 16);
    else
      return x_scales()[chunk * 8 + token];
  }
  // This CTA's.
  __device__ __forceinline__ Items items(const GemmKernelArgs& a) const {
    return Items(static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x), record(a).tiles(),
                 a.blocks);
  }
};

// By all threads, before a barrier of them all.
template <class Traits>
__device__ __forceinline__ void begin(const GemmKernelArgs& a, const Shared<Traits>& s, int warp) {
  if (warp != Role::kWeights) return;
  if (cuda::ptx::elect_one()) {
    Control& c = s.control();
    cuda::ptx::prefetch_map(a.weights);
    cuda::ptx::prefetch_map(a.tokens);
    for (int i = 0; i < a.stages; ++i) {
      cuda::ptx::init_barrier(c.full[i], 2);
      cuda::ptx::init_barrier(c.empty[i], kMultiplyWarps);
    }
    cuda::ptx::fence_barrier_init();
  }
  __syncwarp();
}

// kWeights, one thread; evict first, since the weights are read once a layer.
template <class Traits>
__device__ __forceinline__ void load_weights(const GemmKernelArgs& a, const Shared<Traits>& s) {
  using Layout = StageLayout<Traits>;
  Control& c = s.control();
  const uint64_t policy = cuda::evict_first_policy();
  RingPlace at;
  for (Items i = s.items(a); i.next();) {
    const int row = s.record(a).expert(i.tile) * a.expert_rows + i.block * kBlockRows;
    const uint8_t* scales =
        a.weight_scales + int64_t{row / kBlockRows} * a.chunks * kScaleAtomBytes;
    for (int k = 0; k < a.chunks; k += Traits::kChunks, at.next(a.stages)) {
      const int count = min(Traits::kChunks, a.chunks - k);
      uint64_t& full = c.full[at.stage];
      uint8_t* const to = s.stage(at.stage);
      cuda::ptx::wait(c.empty[at.stage], at.parity ^ 1U);
      cuda::ptx::arrive_expecting(
          full, static_cast<uint32_t>(count) * (kPackedChunkBytes + kScaleAtomBytes));
      for (int j = 0; j < count; ++j)  // columns of the map are bytes
        cuda::ptx::copy_tile(to + Layout::weights_at(j), a.weights, (k + j) * (kChunk / 2), row,
                             full, policy);
      cuda::ptx::copy_bytes(to + Layout::weight_scales_at(0), scales + int64_t{k} * kScaleAtomBytes,
                            static_cast<uint32_t>(count) * kScaleAtomBytes, full, policy);
    }
  }
}

// The product of a warp's 16 rows with block kBlock of a chunk.
template <int kBlock>
__device__ __forceinline__ void add_block(float (&d)[4], const uint8_t* weights,
                                          const uint8_t* tokens, uint32_t a_scales,
                                          uint32_t b_scales, int row, int lane) {
  const int g = lane / 4, t = lane % 4;
  const auto word = [&](int r) {
    return *reinterpret_cast<const uint32_t*>(weights + weight_word_at(r, kBlock, t));
  };
  const uint32_t upper = word(row + g), lower = word(row + g + 8);
  const uint2 x = *reinterpret_cast<const uint2*>(tokens + token_words_at(g, kBlock, t));
  const uint32_t a[4] = {even_elements(upper), even_elements(lower), odd_elements(upper),
                         odd_elements(lower)};
  const uint32_t b[2] = {__byte_perm(x.x, x.y, 0x6420), __byte_perm(x.x, x.y, 0x7531)};
  ptx::multiply<kBlock>(d, a, b, a_scales, b_scales);
}

// kMultiply, all lanes: an item's sums of warp w's rows, k ascending.
template <class Traits>
__device__ __forceinline__ void multiply_item(const GemmKernelArgs& a, const Shared<Traits>& s,
                                              RingPlace& at, int w, int lane, float (&d)[4]) {
  using Layout = StageLayout<Traits>;
  Control& c = s.control();
  const int row = w * 16, scale_row = row + lane / 4 + lane % 2 * 8;
  for (float& sum : d) sum = 0.0F;
  for (int k = 0; k < a.chunks; k += Traits::kChunks, at.next(a.stages)) {
    const int count = min(Traits::kChunks, a.chunks - k);
    cuda::ptx::wait(c.full[at.stage], at.parity);
    const uint8_t* const stage = s.stage(at.stage);
    for (int j = 0; j < count; ++j) {
      const uint8_t* const weights = stage + Layout::weights_at(j);
      const uint8_t* const tokens = stage + Layout::tokens_at(j);
      const auto a_scales = *reinterpret_cast<const uint32_t*>(stage + Layout::weight_scales_at(j) +
                                                               scale_word_at(scale_row));
      const uint32_t b_scales = s.token_scales(at.stage, k + j, j, lane / 4);
      add_block<0>(d, weights, tokens, a_scales, b_scales, row, lane);
      add_block<1>(d, weights, tokens, a_scales, b_scales, row, lane);
      add_block<2>(d, weights, tokens, a_scales, b_scales, row, lane);
      add_block<3>(d, weights, tokens, a_scales, b_scales, row, lane);
    }
    __syncwarp();
    if (lane == 0) cuda::ptx::arrive(c.empty[at.stage]);
  }
}

}  // namespace octet::sm120
