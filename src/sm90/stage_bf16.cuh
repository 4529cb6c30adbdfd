// SPDX-License-Identifier: Apache-2.0
// The product of one stage of weights in BF16, 16 weight rows a warp, with up to 8 rows of activations.
//
//   weights  16 rows x 64 k a pair record (layouts/stream_fp4.h) ──► registers, code times scale, exact: cuda/stream_codes.cuh
//   activations  record of T rows x 64 k (Bf16Record) ──► registers
//
// mma.sync and not wgmma: it needs no descriptors and waits for nobody, 68 instructions a record instead of 77 and up to 15 % of a layer's
// time (docs/kernels/experts_bf16_sm90.md). Columns of a product behind row T - 1 are row T - 1 again; nobody reads them. A stage's products add up in the tensor core,
// even and odd 16 k apart, from zero.
#pragma once

#include <cstdint>

#include "cuda/bf16_mma.cuh"
#include "cuda/stream_codes.cuh"
#include "sm90/activation_record.h"

namespace octet::sm90 {

// The record of this lane's 16 rows as the operands of four products of 16 k.
template <class Stream>
__device__ __forceinline__ void decode_record(uint32_t (&a)[16], const uint8_t* record, int lane) {
  const uint4 words = *reinterpret_cast<const uint4*>(record + lane * 16);
  const cuda::RecordScales<Stream> scales(record + layouts::kStreamCodeBytes, lane / 4);
  const uint32_t row_words[2][2] = {{words.x, words.y}, {words.z, words.w}};  // [block][row]
#pragma unroll
  for (int block = 0; block < 2; ++block) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      uint32_t pairs[4];
      cuda::decode_row(row_words[block][r], scales, r, block, pairs);
#pragma unroll
      for (int i = 0; i < 4; ++i) a[8 * block + 4 * (i / 2) + 2 * (i % 2) + r] = pairs[i];
    }
  }
}

// acc += a stage of `pairs` pairs: kPairs or one less unrolled, or, where a stage has another number, one by one. acc: rows g (0, 1) and g + 8
// (2, 3), columns 2 t and 2 t + 1. `weights`: this warp's 16 rows; `x`: records of the stage's k, of `rows` rows.
template <class Stream, int kPairs>
__device__ __forceinline__ void add_stage_bf16(float (&acc)[4], const uint8_t* weights,
                                               const uint8_t* x, int rows, int pairs, int lane) {
  const uint32_t block = Bf16Record::block_bytes(rows);
  x += min(lane / 4, rows - 1) * 64 + lane % 4 * 16;
  float even[4] = {}, odd[4] = {};
  const auto add_pair = [&](const uint8_t* record) {
    uint32_t a[16];
    decode_record<Stream>(a, record, lane);
#pragma unroll
    for (int b = 0; b < 2; ++b, x += block) {
      const uint4 v = *reinterpret_cast<const uint4*>(x);
      const uint32_t* const w = a + 8 * b;
      cuda::mma_bf16(even, w[0], w[1], w[2], w[3], v.x, v.y);
      cuda::mma_bf16(odd, w[4], w[5], w[6], w[7], v.z, v.w);
    }
  };
  if (kPairs > 0 && (pairs == kPairs || pairs == kPairs - 1)) {
#pragma unroll
    for (int p = 0; p < kPairs; ++p)
      if (p < kPairs - 1 || pairs == kPairs) add_pair(weights + p * Stream::kRecordBytes);
  } else {
#pragma unroll 1
    for (int p = 0; p < pairs; ++p) add_pair(weights + p * Stream::kRecordBytes);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) acc[i] = __fadd_rn(acc[i], __fadd_rn(even[i], odd[i]));
}

}  // namespace octet::sm90
