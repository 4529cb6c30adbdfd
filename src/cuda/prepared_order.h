// SPDX-License-Identifier: Apache-2.0
// In which order CTAs of the prepared tensors' GEMMs work, and the numbers that all of them share. For host and device; no CUDA header.
//
//   item    8 rows of a tile times 128 stored weight rows, all of K; item i is block i % blocks of tile i / blocks, CTA b of G takes
//           b, b + G, ... So a sum is one CTA's, k ascending, and nothing of it depends on the grid or the other rows.
//   chunk   128 of K: a 512-byte atom of weight scales, four products of 32 k
#pragma once

#include <cstdint>

#include "core/shape.h"
#include "routing/record.h"

#if defined(__CUDACC__)
#define OCTET_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define OCTET_HOST_DEVICE inline
#endif

namespace octet::cuda {

constexpr int kMostTokens = 8, kMostTopK = 8, kMostExperts = 384;
constexpr int kMostTiles =
    static_cast<int>(routing::max_ctas(kMostTokens, kMostTopK, kMostExperts));
constexpr int kMostRecordWords = routing::record_words<int>(kMostTiles);

constexpr int kBlockRows = 128;                 // stored weight rows of an item
constexpr int kHiddenOfBlock = kBlockRows / 2;  // columns of h that a block of w13 makes
constexpr int kChunk = 128;                     // of K
constexpr int kProductsOfChunk = 4;             // as many as scale bytes in a word
constexpr int kPackedChunkBytes = kBlockRows * kChunk / 2;
constexpr int kTokenChunkBytes = static_cast<int>(kTileRows) * kChunk;
constexpr int kScaleAtomBytes = 512;      // scales of 128 rows and a chunk
constexpr int kTokenScaleBytes = 8 * 16;  // of them, those of eight rows: lines of 16 bytes

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

// Of stages of `stage_chunks` chunks and `stage_bytes`, at most `most`, in `room` bytes of which `fixed` are taken.
struct RingShape {
  int stage_chunks, stage_bytes, most, room, fixed;
};
constexpr GemmPlan gemm_plan(int blocks, int chunks, const RingShape& r) {
  GemmPlan p;
  p.blocks = blocks;
  p.chunks = chunks;
  const int fit = (r.room - r.fixed) / r.stage_bytes;
  p.stages = fit < 2 ? 0 : fit < r.most ? fit : r.most;
  p.dynamic_bytes = p.stages * r.stage_bytes + r.fixed;
  constexpr int kOfChunk = kPackedChunkBytes + kScaleAtomBytes;
  p.bytes_in_flight = p.stages * r.stage_chunks * kOfChunk;
  p.expert_bytes = int64_t{blocks} * chunks * kOfChunk;
  return p;
}

// Blocks of w13 that do not hold padding only; of w2; chunks of K.
constexpr int w13_blocks(int64_t intermediate) {
  return static_cast<int>(ceil_div(intermediate, kHiddenOfBlock));
}
constexpr int w2_blocks(int64_t hidden) { return static_cast<int>(hidden / kBlockRows); }
constexpr int chunks_of(int64_t k) { return static_cast<int>(k / kChunk); }

// A place in the ring of stages: the parity is that of the phase in which it is filled.
struct RingPlace {
  int stage = 0;
  uint32_t parity = 0;
  OCTET_HOST_DEVICE constexpr void next(int stages) {
    if (++stage < stages) return;
    stage = 0;
    parity ^= 1U;
  }
};

// A CTA's items, one after the other.
class Items {
 public:
  int tile = 0, block = 0;
  int turn = -1;  // how many came before

  OCTET_HOST_DEVICE constexpr Items(int cta, int ctas, int tiles, int blocks)
      : item_(cta - ctas), step_(ctas), count_(tiles * blocks), blocks_(blocks) {}
  // False: there is none left.
  OCTET_HOST_DEVICE constexpr bool next() {
    item_ += step_;
    ++turn;
    if (item_ >= count_) return false;
    tile = item_ / blocks_;
    block = item_ - tile * blocks_;
    return true;
  }

 private:
  int item_, step_, count_, blocks_;
};

}  // namespace octet::cuda
