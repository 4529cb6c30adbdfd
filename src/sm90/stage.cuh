// SPDX-License-Identifier: Apache-2.0
// The product of one stage of weights by a warpgroup, a quarter of 16 weight rows a warp, with up to 8 rows of activations.
//
//   weights  16 rows x 64 k a pair record, 544 bytes (layouts/stream_fp4.h) ──► registers, decoded to e4m3 * 2^-6: 5 operations for 8 codes
//   activations  pair record of Tp rows x 64 k (activation_record.h) ──► wgmma reads them where they lie
//
// The 8 columns of a product are activation rows 0 ... Tp - 1 and, behind them, whatever bytes follow: nobody reads those columns.
// A product of 32 k goes to fresh registers and is added with both block scales: acc = fma(weight scale * x scale, product, acc), k ascending.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "layouts/stream_fp4.h"
#include "sm90/activation_record.h"
#include "sm90/ptx/wgmma.cuh"

namespace octet::sm90 {

constexpr int kRecordBytes = static_cast<int>(layouts::stream_record_bytes(WeightFormat::kMxfp4));
constexpr int kScalesAt = static_cast<int>(layouts::kStreamCodeBytes);
// A decoded weight is its value times 2^-6, which sums carry until they are finished.
constexpr float kWeightUnit = 64.0F;

// A code word in the layout's order kE4m3: its elements 0..3 and 4..7.
__device__ __forceinline__ void decode_eight(uint32_t word, uint32_t& low, uint32_t& high) {
  low = word & 0x9C9C9C9CU;
  high = ((word << 2) & 0x8C8C8C8CU) | ((word >> 2) & 0x10101010U);
}

// What each UE8M0 is in binary32: for those without 0 and 255 a shift, which the layout prepared.
template <bool kAnyScale>
__device__ __forceinline__ void decode_scales(uint32_t word, float (&scale)[4]) {
  constexpr uint32_t kExponent = 0x7F800000U;
  const uint32_t bits[4] = {word & kExponent, (word << 8) & kExponent, (word << 16) & kExponent,
                            __funnelshift_l(word, word, 24) & kExponent};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    uint32_t b = bits[i];
    if (kAnyScale) b = b == 0 ? 0x00400000U : b == kExponent ? 0x7FFFFFFFU : b;
    scale[i] = __uint_as_float(b);
  }
}

// One pair under way.
struct PairRegisters {
  uint32_t a[8];
  float d[8];
  uint32_t scales;
};

// Reads the pair record of this lane and starts its two products.
__device__ __forceinline__ void start_pair(PairRegisters& r, const uint8_t* weights, uint64_t b,
                                           uint32_t next_block, int lane) {
  const uint4 words = *reinterpret_cast<const uint4*>(weights + lane * 16);
  r.scales = *reinterpret_cast<const uint32_t*>(weights + kScalesAt + (lane / 4) * 4);
  decode_eight(words.x, r.a[0], r.a[2]);
  decode_eight(words.y, r.a[1], r.a[3]);
  decode_eight(words.z, r.a[4], r.a[6]);
  decode_eight(words.w, r.a[5], r.a[7]);
  ptx::fence_operands(r.a);
  ptx::multiply(r.d, r.a, b);
  ptx::multiply(r.d + 4, r.a + 4, b + next_block);
  ptx::commit();
}

// acc: rows g (0, 1) and g + 8 (2, 3), columns 2 t and 2 t + 1.
template <bool kAnyScale>
__device__ __forceinline__ void add_pair(float (&acc)[4], PairRegisters& r, float2 x0, float2 x1) {
  ptx::settle(r.d, r.a);
  float s[4];
  decode_scales<kAnyScale>(r.scales, s);
  acc[0] = fmaf(s[0] * x0.x, r.d[0], acc[0]);
  acc[1] = fmaf(s[0] * x0.y, r.d[1], acc[1]);
  acc[2] = fmaf(s[1] * x0.x, r.d[2], acc[2]);
  acc[3] = fmaf(s[1] * x0.y, r.d[3], acc[3]);
  acc[0] = fmaf(s[2] * x1.x, r.d[4], acc[0]);
  acc[1] = fmaf(s[2] * x1.y, r.d[5], acc[1]);
  acc[2] = fmaf(s[3] * x1.x, r.d[6], acc[2]);
  acc[3] = fmaf(s[3] * x1.y, r.d[7], acc[3]);
}

// Adds a stage of `pairs` pairs: kPairs of them unrolled, with two under way, or, where a stage has another number, one by one; the same
// bytes. One less than kPairs takes the unrolled code, too, and leaves its last product: the second matrices' stages then find the code
// that the first ones' brought, and what is read behind them is inside the CTA's memory. `weights`: this warp's 16 rows; `x`: activation records of the stage's k, of `rows` rows (even). All 128 threads come here.
template <int kPairs, bool kAnyScale>
__device__ __forceinline__ void add_stage(float (&acc)[4], const uint8_t* weights, const uint8_t* x,
                                          int rows, int pairs, int lane) {
  const uint32_t matrix = ActivationRecord::matrix_bytes(rows);
  const uint32_t record = ActivationRecord::bytes(rows);
  uint64_t b = ptx::descriptor(ptx::shared_address(x), matrix);
  const uint32_t next_block = 2 * matrix / 16, next_pair = record / 16;
  const uint8_t* xs = x + ActivationRecord::scales_at(rows) + (lane % 4) * 8;
  const uint32_t scale_row = static_cast<uint32_t>(rows) * 4;
  if (kPairs > 0 && (pairs == kPairs || pairs == kPairs - 1)) {
    PairRegisters r[2];
#pragma unroll
    for (int p = 0; p < kPairs + 1; ++p) {
      if (p < kPairs) {
        start_pair(r[p % 2], weights + p * kRecordBytes, b, next_block, lane);
        b += next_pair;
      }
      if (p == 0) continue;
      const float2 x0 = *reinterpret_cast<const float2*>(xs);
      const float2 x1 = *reinterpret_cast<const float2*>(xs + scale_row);
      xs += record;
      if (p < kPairs) {
        ptx::wait_group<1>();
      } else {
        ptx::wait_group<0>();
      }
      if (p < kPairs || pairs == kPairs) add_pair<kAnyScale>(acc, r[(p - 1) % 2], x0, x1);
    }
    return;
  }
#pragma unroll 1
  for (int p = 0; p < pairs; ++p, b += next_pair, xs += record) {
    PairRegisters r;
    start_pair(r, weights + p * kRecordBytes, b, next_block, lane);
    ptx::wait_group<0>();
    add_pair<kAnyScale>(acc, r, *reinterpret_cast<const float2*>(xs),
                        *reinterpret_cast<const float2*>(xs + scale_row));
  }
}

}  // namespace octet::sm90
