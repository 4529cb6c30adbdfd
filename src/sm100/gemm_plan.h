// SPDX-License-Identifier: Apache-2.0
// What the expert GEMMs make of a shape: items, stages, shared and tensor memory. For host and device; no CUDA header.
//
//   item    8 rows of a tile times 128 stored weight rows, all of K; item i is block i % blocks of tile i / blocks, CTA b of G takes
//           b, b + G, ... So a sum is one CTA's, k ascending, and nothing of it depends on the grid or the other rows.
//   chunk   128 of K: four products, a 512-byte atom of weight scales
//   stage   kChunks chunks, whole or, at the end of a row, fewer:
//             weights [kChunks][128 rows][128]  16 e2m1 in 8 of 16 bytes, swizzled      token codes [kChunks][8 rows][128]  e4m3, swizzled
//             weight scales [kChunks][512]                                              GEMM2: token scales [kChunks][512]
//
//   shared memory:   stages | control (gemm_shared.cuh) | GEMM1: scales of x, 128 bytes a chunk and kScaleSlack
//   tensor memory:   2 x 8 columns of sums | 8 columns of scales for each chunk of each stage
#pragma once

#include <cstdint>

#include "core/shape.h"
#include "routing/record.h"

namespace octet::sm100 {

constexpr int kMostTokens = 8, kMostTopK = 8, kMostExperts = 384;
constexpr int kMostTiles =
    static_cast<int>(routing::max_ctas(kMostTokens, kMostTopK, kMostExperts));
constexpr int kMostRecordWords = routing::record_words<int>(kMostTiles);

constexpr int kBlockRows = 128;                 // stored weight rows of an item
constexpr int kHiddenOfBlock = kBlockRows / 2;  // columns of h that a block of w13 makes
constexpr int kChunk = 128;                     // of K
constexpr int kProductsOfChunk = 4;             // of 32 k each, as many as scale bytes in a column
constexpr int kPackedChunkBytes =
    kBlockRows * kChunk / 2;                            // what a copy of a chunk's weights counts
constexpr int kWeightChunkBytes = kBlockRows * kChunk;  // what it takes in shared memory
constexpr int kTokenChunkBytes = static_cast<int>(kTileRows) * kChunk;
constexpr int kScaleAtomBytes = 512;      // scales of 128 rows and a chunk
constexpr int kTokenScaleBytes = 8 * 16;  // of them, those of eight rows: lines of 16 bytes
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

// Of a launch.
struct GemmPlan {
  int blocks = 0;  // items of a tile
  int chunks = 0;  // K / 128
  int stages = 0;  // 0: not even two fit
  int dynamic_bytes = 0;
  // Weight bytes with their scales that one CTA has on their way when its ring is full.
  int bytes_in_flight = 0;
  // Bytes of weights and scales that an expert's items read.
  int64_t expert_bytes = 0;
};

template <class Traits>
constexpr GemmPlan gemm_plan(int blocks, int chunks) {
  GemmPlan p;
  p.blocks = blocks;
  p.chunks = chunks;
  const int fixed =
      kControlBytes + (Traits::kScalesInStage ? 0 : chunks * kTokenScaleBytes + kScaleSlack);
  const int fit = (kMostSharedBytes - fixed) / StageLayout<Traits>::kBytes;
  p.stages = fit < 2 ? 0 : fit < Traits::kMostStages ? fit : Traits::kMostStages;
  p.dynamic_bytes = p.stages * StageLayout<Traits>::kBytes + fixed;
  constexpr int kOfChunk = kPackedChunkBytes + kScaleAtomBytes;
  p.bytes_in_flight = p.stages * Traits::kChunks * kOfChunk;
  p.expert_bytes = int64_t{blocks} * chunks * kOfChunk;
  return p;
}

// Blocks of w13 that hold no padding only.
constexpr GemmPlan gemm1_plan(int64_t hidden, int64_t intermediate) {
  return gemm_plan<Gemm1Traits>(static_cast<int>(ceil_div(intermediate, kHiddenOfBlock)),
                                static_cast<int>(hidden / kChunk));
}
constexpr GemmPlan gemm2_plan(int64_t hidden, int64_t padded) {
  return gemm_plan<Gemm2Traits>(static_cast<int>(hidden / kBlockRows),
                                static_cast<int>(padded / kChunk));
}

}  // namespace octet::sm100
