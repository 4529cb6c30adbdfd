// SPDX-License-Identifier: Apache-2.0
// The product of one stage of weights by a warpgroup in BF16, a quarter of 16 weight rows a warp, with up to 8 rows of activations.
//
//   weights  16 rows x 64 k a pair record (layouts/stream_fp4.h) ──► registers, code times scale, exact: cuda/stream_codes.cuh
//   activations  record of T rows x 64 k (Bf16Record) ──► wgmma reads them where they lie
//
// The 8 columns of a product are activation rows 0 ... T - 1 and, behind them, whatever bytes follow: nobody reads those columns.
// A stage's products add up in the tensor core, even and odd 16 k apart, from zero; acc gets their sum.
#pragma once

#include <cstdint>

#include "cuda/stream_codes.cuh"
#include "cuda/warp.cuh"
#include "sm90/activation_record.h"
#include "sm90/ptx/mbarrier.cuh"
#include "sm90/ptx/wgmma.cuh"

namespace octet::sm90 {

// The record of this lane's 16 rows as the operands of four products of 16 k.
template <class Stream>
__device__ __forceinline__ void decode_record(uint32_t (&a)[16], const uint4& words,
                                              const uint8_t* record, int lane) {
  const cuda::RecordScales<Stream> scales(record + layouts::kStreamCodeBytes, lane / 4);
  const uint32_t row_words[2][2] = {{words.x, words.y}, {words.z, words.w}};  // [block][row]
#pragma unroll
  for (int block = 0; block < 2; ++block) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      uint32_t pairs[4];
      cuda::decode_codes<Stream::kOrder>(row_words[block][r], pairs);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (Stream::kWide && Stream::kFormat == WeightFormat::kMxfp4)
          pairs[i] = cuda::mul_bf16x2(pairs[i], cuda::power_bf16x2(126));
        a[8 * block + 4 * (i / 2) + 2 * (i % 2) + r] =
            cuda::mul_bf16x2(pairs[i], scales.of(r, block, i / 2));
      }
    }
  }
}

// Starts a pair's four products on `even` and `odd`, which begin at zero where `is_first`.
__device__ __forceinline__ void start_products(float (&even)[4], float (&odd)[4], uint32_t (&a)[16],
                                               uint32_t b, uint32_t next_16_k, bool is_first) {
  ptx::fence_operands(a);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    ptx::multiply_bf16(i % 2 == 0 ? even : odd, a + 4 * i, b + i * next_16_k, !is_first || i > 1);
  ptx::commit();
}

// acc += a stage of `pairs` pairs: kPairs of them unrolled, with two under way, or, where a stage has another number, one by one. One less
// than kPairs takes the unrolled code, too, and leaves its last product (stage.cuh says why), which so has sums of its own. acc: rows g (0,
// 1) and g + 8 (2, 3), columns 2 t and 2 t + 1. `weights`: this warp's 16 rows; `x`: records of the stage's k, of `rows` rows. All 128
// threads come here.
template <class Stream, int kPairs>
__device__ __forceinline__ void add_stage_bf16(float (&acc)[4], const uint8_t* weights,
                                               const uint8_t* x, int rows, int pairs, int lane) {
  const uint32_t matrix = Bf16Record::matrix_bytes(rows), next_16_k = 2 * matrix / 16,
                 next_pair = Bf16Record::bytes(rows) / 16;
  // The same for all lanes, which the compiler learns so: descriptors are made in uniform registers.
  uint32_t b = __reduce_or_sync(
      cuda::kWholeWarp, static_cast<uint32_t>(ptx::descriptor(ptx::shared_address(x), matrix)));
  float even[4], odd[4];
  if (kPairs > 0 && (pairs == kPairs || pairs == kPairs - 1)) {
    uint32_t a[2][16];
    float last_even[4], last_odd[4];
    uint4 next = *reinterpret_cast<const uint4*>(weights + lane * 16);
#pragma unroll
    for (int p = 0; p < kPairs; ++p, b += next_pair) {
      const uint4 words = next;
      const uint8_t* const record = weights + p * Stream::kRecordBytes;
      if (p + 1 < kPairs)
        next = *reinterpret_cast<const uint4*>(record + Stream::kRecordBytes + lane * 16);
      decode_record<Stream>(a[p % 2], words, record, lane);
      if (p == kPairs - 1) {
        start_products(last_even, last_odd, a[p % 2], b, next_16_k, true);
      } else {
        start_products(even, odd, a[p % 2], b, next_16_k, p == 0);
      }
      if (p == 0) continue;
      ptx::wait_group<1>();
      ptx::settle(a[(p - 1) % 2]);
    }
    ptx::wait_group<0>();
    ptx::settle(a[(kPairs - 1) % 2]);
    ptx::settle(even);
    ptx::settle(odd);
    ptx::settle(last_even);
    ptx::settle(last_odd);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float last = __fadd_rn(last_even[i], last_odd[i]);
      const float sum = __fadd_rn(even[i], odd[i]);
      acc[i] = __fadd_rn(acc[i], pairs == kPairs ? __fadd_rn(sum, last) : sum);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) even[i] = odd[i] = 0.0F;
#pragma unroll 1
  for (int p = 0; p < pairs; ++p, b += next_pair) {
    uint32_t a[16];
    const uint8_t* const record = weights + p * Stream::kRecordBytes;
    decode_record<Stream>(a, *reinterpret_cast<const uint4*>(record + lane * 16), record, lane);
    start_products(even, odd, a, b, next_16_k, false);
    ptx::wait_group<0>();
    ptx::settle(a);
    ptx::settle(even);
    ptx::settle(odd);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) acc[i] = __fadd_rn(acc[i], __fadd_rn(even[i], odd[i]));
}

}  // namespace octet::sm90
