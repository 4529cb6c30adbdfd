// SPDX-License-Identifier: Apache-2.0
// What the expert GEMMs of SM100 make of a shape: stages, shared and tensor memory. For host and device; no CUDA header.
//
//   stage   kChunks chunks, whole or, at the end of a row, fewer:
//             weights [kChunks][128 rows][128]  16 e2m1 in 8 of 16 bytes, swizzled      token codes [kChunks][8 rows][128]  e4m3, swizzled
//             weight scales [kChunks][512]                                              GEMM2: token scales [kChunks][512]
//
//   shared memory:   stages | control (gemm_shared.cuh) | GEMM1: scales of x, 128 bytes a chunk and kScaleSlack
//   tensor memory:   2 x 8 columns of sums | 8 columns of scales for each chunk of each stage
#pragma once

#include <cstdint>

#include "cuda/prepared_order.h"

namespace octet::sm100 {

using cuda::GemmPlan;
using cuda::kBlockRows;
using cuda::kChunk;
using cuda::kHiddenOfBlock;
using cuda::kMostRecordWords;
using cuda::kPackedChunkBytes;
using cuda::kProductsOfChunk;
using cuda::kScaleAtomBytes;
using cuda::kTokenChunkBytes;
using cuda::kTokenScaleBytes;

constexpr int kWeightChunkBytes =
    kBlockRows * kChunk;  // what a chunk's weights take in shared memory
constexpr int kScaleSlack = kScaleAtomBytes - kTokenScaleBytes;  // read behind the last chunk's

constexpr int kMostSharedBytes = 232448;  // that a CTA may have
constexpr int kControlBytes = 4096;       // room for Control, gemm_shared.cuh

constexpr int kThreads = 256;
constexpr int kSumStages = 2, kSumColumns = 8, kScaleColumns = 4;
constexpr uint32_t kTensorColumns = 128;

// GEMM1: x is every item's, its scales stay in shared memory.
struct Gemm1Traits {
  static constexpr int kChunks = 2, kMostStages = 6;
  static constexpr bool kScalesInStage = false;
};
// GEMM2: h and its scales are a tile's.
struct Gemm2Traits {
  static constexpr int kChunks = 1, kMostStages = 12;
  static constexpr bool kScalesInStage = true;
};

// Offsets in a stage, bytes.
template <class Traits>
struct StageLayout {
  static constexpr int kChunks = Traits::kChunks;
  static constexpr int weights_at(int chunk) { return chunk * kWeightChunkBytes; }
  static constexpr int tokens_at(int chunk) {
    return weights_at(kChunks) + chunk * kTokenChunkBytes;
  }
  static constexpr int weight_scales_at(int chunk) {
    return tokens_at(kChunks) + chunk * kScaleAtomBytes;
  }
  static constexpr int token_scales_at(int chunk) {
    return weight_scales_at(kChunks) + chunk * kScaleAtomBytes;
  }
  static constexpr int kBytes =
      Traits::kScalesInStage ? token_scales_at(kChunks) : weight_scales_at(kChunks);
  static_assert(kBytes % 1024 == 0, "the 128-byte swizzle counts from multiples of 1024");
  static_assert(kSumStages * kSumColumns + Traits::kMostStages * kChunks * 2 * kScaleColumns <=
                kTensorColumns);
};

// Columns of the scales of a chunk of a stage, from the allocation's first: the weights', then the tokens'.
template <class Traits>
constexpr uint32_t scale_columns(int stage, int chunk) {
  return static_cast<uint32_t>(kSumStages * kSumColumns +
                               (stage * Traits::kChunks + chunk) * 2 * kScaleColumns);
}

template <class Traits>
constexpr cuda::RingShape ring_shape(int fixed) {
  return {Traits::kChunks, StageLayout<Traits>::kBytes, Traits::kMostStages, kMostSharedBytes,
          fixed};
}
constexpr GemmPlan gemm1_plan(int64_t hidden, int64_t intermediate) {
  const int chunks = cuda::chunks_of(hidden);
  return cuda::gemm_plan(
      cuda::w13_blocks(intermediate), chunks,
      ring_shape<Gemm1Traits>(kControlBytes + chunks * kTokenScaleBytes + kScaleSlack));
}
constexpr GemmPlan gemm2_plan(int64_t hidden, int64_t padded) {
  return cuda::gemm_plan(cuda::w2_blocks(hidden), cuda::chunks_of(padded),
                         ring_shape<Gemm2Traits>(kControlBytes));
}

}  // namespace octet::sm100
