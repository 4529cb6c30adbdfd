// SPDX-License-Identifier: Apache-2.0
// Pair records (layouts/stream_fp4.h) to A fragments of BF16 numbers: code times block scale, exact, times 2^-kWeightShift so that
// one multiplication does it; a layer with wide scales takes the slow path, with shift 0 for MXFP4 and every odd value of
// semantics.md section 1.
#pragma once

#include <cstdint>

#include "core/shape.h"
#include "cuda/bf16_mma.cuh"
#include "layouts/stream_fp4.h"

namespace octet::cuda {

template <WeightFormat format, layouts::StreamOrder order_, bool wide>
struct StreamTraits {
  static constexpr WeightFormat kFormat = format;
  static constexpr layouts::StreamOrder kOrder = order_;
  static constexpr bool kWide = wide;
  static constexpr int kRecordBytes = static_cast<int>(layouts::stream_record_bytes(format));
  // The largest scale, 2^5 or 448, times 2^(126 - shift) is a BF16 number.
  static constexpr int kShift = format == WeightFormat::kNvfp4 ? 7 : wide ? 0 : 4;
};

// Two codes a register, times 2^-126. In kBf16 order registers i hold elements 2 i and 2 i + 1; in kE4m3 order 4 (i / 2) + i % 2
// and that + 2, which activations follow (pair_order).
template <layouts::StreamOrder order>
__device__ __forceinline__ void decode_codes(uint32_t w, uint32_t (&out)[4]) {
  if constexpr (order == layouts::StreamOrder::kBf16) {
    constexpr uint32_t kMask = 0x81C081C0U;
    out[0] = w & kMask;
    out[1] = (w << 4) & kMask;
    out[2] = __funnelshift_l(w, w, 10) & kMask;
    out[3] = ((w << 6) & 0x80C080C0U) | ((w >> 2) & 0x01000100U);
  } else {
    constexpr uint32_t kSign = 0x80008000U, kMagnitude = 0x01C001C0U;
    const uint32_t second = ((w << 2) & 0x8C8C8C8CU) | ((w >> 2) & 0x10101010U);
    out[0] = ((w << 8) & kSign) | ((w << 4) & kMagnitude);
    out[1] = (w & kSign) | ((w >> 4) & kMagnitude);
    out[2] = ((second << 8) & kSign) | ((second << 4) & kMagnitude);
    out[3] = (second & kSign) | ((second >> 4) & kMagnitude);
  }
}

// Four neighbours of K in the order of decode_codes().
template <layouts::StreamOrder order>
__device__ __forceinline__ uint2 pair_order(uint2 v) {
  if constexpr (order == layouts::StreamOrder::kBf16) return v;
  return make_uint2(__byte_perm(v.x, v.y, 0x5410), __byte_perm(v.x, v.y, 0x7632));
}

namespace stream {

// Both halves of a pair of UE8M0 scales in BF16's exponent field: 0 is 2^-127, 255 NaN.
__device__ __forceinline__ uint32_t careful_ue8m0(uint32_t pair) {
#pragma unroll
  for (int half = 0; half < 32; half += 16) {
    const uint32_t code = pair >> (half + 7) & 0xFFU;
    if (code == 0 || code == 255) pair |= 0x40U << half;
  }
  return pair;
}
// Both halves of a pair of E4M3 magnitudes at bits 4 ... 10: 0x7F is NaN; times 2^-120 else. `negative`: bits 0 and 16.
__device__ __forceinline__ uint32_t careful_e4m3(uint32_t pair, uint32_t negative) {
#pragma unroll
  for (int half = 0; half < 32; half += 16) {
    if ((pair >> half & 0x7F0U) == 0x7F0U) pair |= 0x7FC0U << half;
  }
  return pair | (negative & 0x10001U) << 15;
}

}  // namespace stream

// A lane's share of a record's scales, ready to multiply.
template <class Traits>
struct RecordScales;

// rows[0]: low half row g block 1, high half row g block 0; rows[1] of row g + 8.
template <layouts::StreamOrder order, bool wide>
struct RecordScales<StreamTraits<WeightFormat::kMxfp4, order, wide>> {
  uint32_t rows[2];
  __device__ __forceinline__ RecordScales(const uint8_t* scales, int g) {
    constexpr uint32_t kMask = 0x7F807F80U;
    const uint32_t word = *reinterpret_cast<const uint32_t*>(scales + 4 * g);
    const uint32_t pairs[2] = {word & kMask, __funnelshift_l(word, word, 8) & kMask};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      rows[r] = wide ? stream::careful_ue8m0(pairs[r]) : mul_bf16x2(pairs[r], power_bf16x2(122));
    }
  }
  // Of row g + 8 r, block of 32 `block`, half of it `half`, in both halves of the register.
  __device__ __forceinline__ uint32_t of(int r, int block, int) const {
    return block == 0 ? high_bf16x2(rows[r]) : low_bf16x2(rows[r]);
  }
};

// rows[r][b]: row g + 8 r, block of 32 b, low half its first 16.
template <layouts::StreamOrder order, bool wide>
struct RecordScales<StreamTraits<WeightFormat::kNvfp4, order, wide>> {
  uint32_t rows[2][2];
  __device__ __forceinline__ RecordScales(const uint8_t* scales, int g) {
    constexpr uint32_t kMask = 0x07F007F0U;
    const uint2 words = *reinterpret_cast<const uint2*>(scales + 8 * g);
    const uint32_t row_words[2] = {words.x, words.y};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const uint32_t w = row_words[r];
      uint32_t pairs[2] = {w & kMask, __funnelshift_r(w, w, 7) & kMask};
      if constexpr (wide) {  // signs of scales 0, 1, 2, 3: bits 2, 3, 18, 19
        pairs[0] = stream::careful_e4m3(pairs[0], (w >> 2 & 1U) | (w >> 3 & 1U) << 16);
        pairs[1] = stream::careful_e4m3(pairs[1], (w >> 18 & 1U) | (w >> 19 & 1U) << 16);
      }
#pragma unroll
      for (int b = 0; b < 2; ++b) {  // 2^239 in two steps
        rows[r][b] = mul_bf16x2(mul_bf16x2(pairs[b], power_bf16x2(120)), power_bf16x2(119));
      }
    }
  }
  __device__ __forceinline__ uint32_t of(int r, int block, int half) const {
    return half == 0 ? low_bf16x2(rows[r][block]) : high_bf16x2(rows[r][block]);
  }
};

// Eight codes of row g + 8 r, block of 32 `block`, times their scales.
template <class Traits>
__device__ __forceinline__ void decode_row(uint32_t codes, const RecordScales<Traits>& scales,
                                           int r, int block, uint32_t (&out)[4]) {
  decode_codes<Traits::kOrder>(codes, out);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (Traits::kWide && Traits::kFormat == WeightFormat::kMxfp4)
      out[i] = mul_bf16x2(out[i], power_bf16x2(126));
    out[i] = mul_bf16x2(out[i], scales.of(r, block, i / 2));
  }
}

// acc[half of the block of 32] += record times 8 columns; x: the pair's activations, {b0, b1} of each 16 of K.
template <class Traits>
__device__ __forceinline__ void multiply_record(const uint8_t* record, int lane,
                                                const uint32_t (&x)[8], float (&acc)[2][4]) {
  const uint4 words = *reinterpret_cast<const uint4*>(record + lane * 16);
  const RecordScales<Traits> scales(record + layouts::kStreamCodeBytes, lane / 4);
  const uint32_t row_words[2][2] = {{words.x, words.y}, {words.z, words.w}};  // [block][row]
#pragma unroll
  for (int block = 0; block < 2; ++block) {
    uint32_t a[2][4];  // [row][register]
#pragma unroll
    for (int r = 0; r < 2; ++r) decode_row(row_words[block][r], scales, r, block, a[r]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      mma_bf16(acc[half], a[0][2 * half], a[1][2 * half], a[0][2 * half + 1], a[1][2 * half + 1],
               x[4 * block + 2 * half], x[4 * block + 2 * half + 1]);
    }
  }
}

}  // namespace octet::cuda
