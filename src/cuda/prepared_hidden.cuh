// SPDX-License-Identifier: Apache-2.0
// What the prepared tensors' GEMMs do with the record and with h, whatever their tensor cores are: semantics.md sections 5 and 7.
#pragma once

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include "cuda/hidden_scale.cuh"
#include "cuda/prepared_gemm.h"
#include "layouts/prepared.h"
#include "routing/record.h"

namespace octet::cuda {

// By `threads` threads, to shared memory: the record, 16 bytes each at a time. Not from the SM's own cache: GEMM2 asks before it waits for the kernel
// ahead of it.
__device__ __forceinline__ void read_record(const GemmKernelArgs& a, int32_t* to, int thread,
                                            int threads) {
  const int words = routing::record_words<int>(a.most_tiles);
  for (int i = thread; i < words / 4; i += threads)
    reinterpret_cast<int4*>(to)[i] = __ldcg(reinterpret_cast<const int4*>(a.record) + i);
}

// The record there, taken apart.
struct SharedRecord {
  const int32_t* words;
  int most_tiles;
  __device__ __forceinline__ int tiles() const { return words[1]; }
  __device__ __forceinline__ int expert(int tile) const { return words[4 + tile]; }
  __device__ __forceinline__ int limit(int tile) const {
    return words[4 + routing::cta_words<int>(most_tiles) + tile];
  }
  __device__ __forceinline__ int token(int row) const {
    return words[4 + 2 * routing::cta_words<int>(most_tiles) + row];
  }
};

// Row of the tile that tokens `token` and `token` + 1 have, or -1.
struct TokenRows {
  int row[2];
};
__device__ __forceinline__ TokenRows rows_of_tokens(const SharedRecord& record, int tile,
                                                    int token) {
  const int first = tile * 8, rows = record.limit(tile) - first;
  TokenRows r{{-1, -1}};
  for (int i = 0; i < 8; ++i) {
    const int of_row = record.token(first + i);
    if (i < rows && of_row == token) r.row[0] = i;
    if (i < rows && of_row == token + 1) r.row[1] = i;
  }
  return r;
}

// UE8M0 of a block of h with this largest magnitude, NaN left out: 0 counts as 448, Inf gives 255.
__device__ __forceinline__ uint32_t hidden_scale_code(float amax) {
  return hidden::scale_code(amax == 0.0F ? 448.0F : amax);
}
// 2^(127 - code); a block of code 255 is NaN whatever its bytes, and no finite block has 254.
__device__ __forceinline__ float hidden_inverse(uint32_t code) {
  return code >= 254 ? 0.0F : __uint_as_float((254U - code) << 23);
}
// E4M3 of two numbers, the first one in the low byte; NaN is 0x7F.
__device__ __forceinline__ uint16_t hidden_codes(float a, float b, float inverse) {
  return static_cast<uint16_t>(__nv_cvt_float2_to_fp8x2(
      make_float2(__fmul_rn(a, inverse), __fmul_rn(b, inverse)), __NV_SATFINITE, __NV_E4M3));
}

// BF16 of two sums, the first one in the low half; one rounding each.
__device__ __forceinline__ uint32_t two_bf16(float a, float b) {
  const __nv_bfloat162 two = __floats2bfloat162_rn(a, b);
  return static_cast<uint32_t>(__bfloat16_as_ushort(two.y)) << 16 | __bfloat16_as_ushort(two.x);
}

// A code type of one or two neighbouring columns of h, the first one `column`, of row `row` of the tile; `scale` by who has a block's first column.
template <class Codes>
__device__ __forceinline__ void store_hidden(const Gemm1KernelArgs& a, int tile, int row,
                                             int column, Codes codes, uint32_t scale) {
  *reinterpret_cast<Codes*>(a.h_values + int64_t{tile * 8 + row} * a.padded + column) = codes;
  if (column % static_cast<int>(kMxBlock) != 0) return;
  a.h_scales[layouts::h_scale_offset(tile * 8 + row, column / static_cast<int>(kMxBlock),
                                     a.padded)] = static_cast<uint8_t>(scale);
}
// The same, and, where `block` is a tile's last one, the zeros of h's columns behind it: blocks of w13 that are padding have no item.
template <class Codes>
__device__ __forceinline__ void store_hidden_to_end(const Gemm1KernelArgs& a, const Items& item,
                                                    int row, int column, Codes codes,
                                                    uint32_t scale) {
  store_hidden(a, item.tile, row, column, codes, scale);
  if (item.block != a.gemm.blocks - 1) return;
  for (int zero = column + kHiddenOfBlock; zero < a.padded; zero += kHiddenOfBlock)
    store_hidden(a, item.tile, row, zero, Codes{0}, 127);
}

}  // namespace octet::cuda
