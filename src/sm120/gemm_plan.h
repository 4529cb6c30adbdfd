// SPDX-License-Identifier: Apache-2.0
// What the expert GEMMs of SM120 make of a shape: stages and shared memory. For host and device; no CUDA header.
//
//   stage   kChunks chunks, whole or, at the end of a row, fewer:
//             weights [kChunks][128 rows][64]  packed e2m1, swizzled      token codes [kChunks][8 rows][128]  e4m3, swizzled
//             weight scales [kChunks][512]                                GEMM2: token scales [kChunks][128]
//
//   shared memory:   stages | control (gemm_roles.cuh) | GEMM1: scales of x [chunks][8 tokens] of 4 bytes
#pragma once

#include <cstdint>

#include "cuda/prepared_order.h"

namespace octet::sm120 {

using cuda::GemmPlan;
using cuda::kBlockRows;
using cuda::kChunk;
using cuda::kHiddenOfBlock;
using cuda::kPackedChunkBytes;
using cuda::kProductsOfChunk;
using cuda::kScaleAtomBytes;
using cuda::kTokenChunkBytes;
using cuda::kTokenScaleBytes;

constexpr int kMostSharedBytes = 101376;  // that a CTA may have
constexpr int kControlBytes = 3584;       // room for Control, gemm_roles.cuh
constexpr int kXScaleBytes = 32;          // of a chunk of x

constexpr int kMultiplyWarps = kBlockRows / 16;
constexpr int kThreads = (2 + kMultiplyWarps) * 32;

struct Gemm1Traits {
  static constexpr int kChunks = 2, kMostStages = 4;
  static constexpr bool kScalesInStage = false;
};
struct Gemm2Traits {
  static constexpr int kChunks = 1, kMostStages = 9;
  static constexpr bool kScalesInStage = true;
};

// Offsets in a stage, bytes.
template <class Traits>
struct StageLayout {
  static constexpr int kChunks = Traits::kChunks;
  static constexpr int weights_at(int chunk) { return chunk * kPackedChunkBytes; }
  static constexpr int tokens_at(int chunk) {
    return weights_at(kChunks) + chunk * kTokenChunkBytes;
  }
  static constexpr int weight_scales_at(int chunk) {
    return tokens_at(kChunks) + chunk * kScaleAtomBytes;
  }
  static constexpr int token_scales_at(int chunk) {
    return weight_scales_at(kChunks) + chunk * kTokenScaleBytes;
  }
  // The 128-byte swizzle counts from multiples of 1024.
  static constexpr int kBytes = static_cast<int>(round_up(
      Traits::kScalesInStage ? token_scales_at(kChunks) : weight_scales_at(kChunks), 1024));
};

template <class Traits>
constexpr cuda::RingShape ring_shape(int fixed) {
  return {Traits::kChunks, StageLayout<Traits>::kBytes, Traits::kMostStages, kMostSharedBytes,
          fixed};
}
constexpr GemmPlan gemm1_plan(int64_t hidden, int64_t intermediate) {
  const int chunks = cuda::chunks_of(hidden);
  return cuda::gemm_plan(cuda::w13_blocks(intermediate), chunks,
                         ring_shape<Gemm1Traits>(kControlBytes + chunks * kXScaleBytes));
}
constexpr GemmPlan gemm2_plan(int64_t hidden, int64_t padded) {
  return cuda::gemm_plan(cuda::w2_blocks(hidden), cuda::chunks_of(padded),
                         ring_shape<Gemm2Traits>(kControlBytes));
}

}  // namespace octet::sm120
