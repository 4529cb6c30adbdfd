// SPDX-License-Identifier: Apache-2.0
// Stream: the library's own order of 4-bit weights for CUDA. Everything is cut into pair records, which a warp reads with one
// 16-byte and one 4- or 8-byte load a lane, without padding between them.
//
//   strip    16 rows of a matrix; pair: two blocks of 32 along K (K counts from the first scale block that the columns touch)
//   record   strip x pair    [codes: 32 lanes x 16 bytes][scales: 8 x 4 bytes MXFP4, 8 x 8 bytes NVFP4]    544 or 576 bytes
//   stage    up to 4 strips x up to 10 pairs: [strip][pair] records, one contiguous copy (21,760 bytes of MXFP4 at 4 x 10)
//   group    4 strips (64 rows; the last one what is left) by all of K: its stages, K ascending
//   matrix   its groups, rows ascending; filled to a multiple of 128 bytes
//   expert   w13, then w2
//
//   codes    lane = 4 g + t, g 0 ... 7, t 0 ... 3: words {row g, row g + 8} of block 0, {row g, row g + 8} of block 1;
//            a word's element i = elements 4 t + i (i < 4) and 16 + 4 t + i - 4 (i >= 4) of its block of 32
//   scales   MXFP4: word g = rotate right by 1 of (row g block 0) << 24 | (row g + 8 block 0) << 16 | (row g block 1) << 8 |
//            (row g + 8 block 1); NVFP4: word 2 g of row g, word 2 g + 1 of row g + 8, each of four E4M3 (stream_nv_scale_word)
//
//   w13      strip s: rows 0 ... 7 = gate rows 8 s + row, 8 ... 15 = up rows 8 s + row - 8
//   w2       strip s: row r is output row 16 s + stream_down_row(r), so that after a transpose (movmatrix) a lane has four
//            neighbouring outputs of its token
//
// Which bits of a word are whose is told by the order, which the kernel that reads them asks for: kE4m3 gives E4M3 times 2^-6
// with 5 operations for 8 codes, kBf16 gives BF16 times 2^-126 with 9 (stream_codes.cuh). Both hold the same and either kernel
// can read either. K is filled to whole pairs and rows to whole strips with zero codes under scale code 0; a slice that begins
// inside a scale block has start_in_block() zero codes in front. Every code and scale byte of the checkpoint comes back.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "core/shape.h"
#include "layouts/expert_weights.h"

namespace octet::layouts {

enum class StreamOrder : uint8_t { kBf16, kE4m3 };

constexpr int64_t kStreamStripRows = 16;
constexpr int64_t kStreamPairElems = 64;
constexpr int64_t kStreamGroupStrips = 4;
constexpr int64_t kStreamMaxStagePairs = 10;
constexpr int64_t kStreamCodeBytes = 512;  // of a record
constexpr int64_t kStreamAlignment = 128;  // of matrices and experts

constexpr int64_t stream_record_bytes(WeightFormat format) {
  return kStreamCodeBytes + (format == WeightFormat::kMxfp4 ? 32 : 64);
}
static_assert(stream_record_bytes(WeightFormat::kMxfp4) == 544);
static_assert(stream_record_bytes(WeightFormat::kNvfp4) == 576);

// Pairs of every stage but the last: the most from 5 to 10 that divide `pairs`, so that warps get equal shares, else as even as
// it goes.
constexpr int64_t stream_stage_pairs(int64_t pairs) {
  for (int64_t n = kStreamMaxStagePairs; n >= kStreamMaxStagePairs / 2; --n) {
    if (pairs % n == 0) return n;
  }
  return ceil_div(pairs, ceil_div(pairs, kStreamMaxStagePairs));
}

constexpr int64_t stream_down_row(int64_t row) { return row % 8 / 2 * 4 + row % 2 + row / 8 * 2; }
constexpr int64_t stream_down_row_inverse(int64_t output) {
  return output / 4 * 2 + output % 2 + output % 4 / 2 * 8;
}

// The bits of element i of a code word: sign, exponent (2), mantissa.
using StreamBits = std::array<uint8_t, 4>;
constexpr std::array<StreamBits, 8> stream_code_bits(StreamOrder order) {
  if (order == StreamOrder::kBf16) {
    return {{{15, 8, 7, 6},
             {31, 24, 23, 22},
             {11, 4, 3, 2},
             {27, 20, 19, 18},
             {5, 30, 29, 28},
             {21, 14, 13, 12},
             {9, 10, 1, 0},
             {25, 26, 17, 16}}};
  }
  return {{{7, 4, 3, 2},
           {15, 12, 11, 10},
           {23, 20, 19, 18},
           {31, 28, 27, 26},
           {5, 6, 1, 0},
           {13, 14, 9, 8},
           {21, 22, 17, 16},
           {29, 30, 25, 24}}};
}

// Code i in bits 4 i ... 4 i + 3 of `nibbles`, and back.
constexpr uint32_t stream_code_word(StreamOrder order, uint32_t nibbles) {
  const auto bits = stream_code_bits(order);
  uint32_t word = 0;
  for (size_t i = 0; i < 8; ++i) {
    for (size_t b = 0; b < 4; ++b) word |= (nibbles >> (4 * i + 3 - b) & 1U) << bits[i][b];
  }
  return word;
}
constexpr uint32_t stream_code_nibbles(StreamOrder order, uint32_t word) {
  const auto bits = stream_code_bits(order);
  uint32_t nibbles = 0;
  for (size_t i = 0; i < 8; ++i) {
    for (size_t b = 0; b < 4; ++b) nibbles |= (word >> bits[i][b] & 1U) << (4 * i + 3 - b);
  }
  return nibbles;
}

// Scale c of {row g block 0, row g + 8 block 0, row g block 1, row g + 8 block 1} in bits 8 c ... 8 c + 7, and back.
constexpr uint32_t stream_mx_scale_word(uint32_t scales) {
  const uint32_t swapped =
      scales >> 24 | (scales >> 8 & 0xFF00U) | (scales << 8 & 0xFF0000U) | scales << 24;
  return std::rotr(swapped, 1);
}
constexpr uint32_t stream_mx_scales(uint32_t word) {
  const uint32_t v = std::rotl(word, 1);
  return v >> 24 | (v >> 8 & 0xFF00U) | (v << 8 & 0xFF0000U) | v << 24;
}

// Scale c = 0 ... 3 along K (blocks of 16) in bits 8 c ... 8 c + 7, and back. In the word, bits 4 ... 10 and 20 ... 26 are the
// magnitudes of scales 0 and 1, after a rotation right by 7 those of 2 and 3: BF16 times 2^-120. Signs: bits 2, 3, 18, 19.
constexpr std::array<uint8_t, 4> kStreamNvMagnitude = {4, 20, 11, 27};
constexpr std::array<uint8_t, 4> kStreamNvSign = {2, 3, 18, 19};
constexpr uint32_t stream_nv_scale_word(uint32_t scales) {
  uint32_t word = 0;
  for (size_t c = 0; c < 4; ++c) {
    word |= std::rotl(scales >> (8 * c) & 0x7FU, kStreamNvMagnitude[c]);
    word |= (scales >> (8 * c + 7) & 1U) << kStreamNvSign[c];
  }
  return word;
}
constexpr uint32_t stream_nv_scales(uint32_t word) {
  uint32_t scales = 0;
  for (size_t c = 0; c < 4; ++c) {
    scales |= (std::rotr(word, kStreamNvMagnitude[c]) & 0x7FU) << (8 * c);
    scales |= (word >> kStreamNvSign[c] & 1U) << (8 * c + 7);
  }
  return scales;
}

// One matrix: where its records are. Offsets and sizes in bytes from the matrix's beginning.
struct StreamMatrix {
  WeightFormat format = WeightFormat::kMxfp4;
  int64_t strips = 0, pairs = 0;
  int64_t stage_pairs = 1;  // of every stage but the last

  constexpr int64_t record_bytes() const { return stream_record_bytes(format); }
  constexpr int64_t num_groups() const { return ceil_div(strips, kStreamGroupStrips); }
  constexpr int64_t num_stages() const { return ceil_div(pairs, stage_pairs); }
  constexpr int64_t strips_in_group(int64_t group) const {
    const int64_t left = strips - group * kStreamGroupStrips;
    return left < kStreamGroupStrips ? left : kStreamGroupStrips;
  }
  constexpr int64_t pairs_in_stage(int64_t stage) const {
    const int64_t left = pairs - stage * stage_pairs;
    return left < stage_pairs ? left : stage_pairs;
  }
  constexpr int64_t stage_offset(int64_t group, int64_t stage) const {
    return (group * kStreamGroupStrips * pairs + strips_in_group(group) * stage * stage_pairs) *
           record_bytes();
  }
  constexpr int64_t stage_bytes(int64_t group, int64_t stage) const {
    return strips_in_group(group) * pairs_in_stage(stage) * record_bytes();
  }
  constexpr int64_t record_offset(int64_t strip, int64_t pair) const {
    const int64_t stage = pair / stage_pairs;
    return stage_offset(strip / kStreamGroupStrips, stage) +
           (strip % kStreamGroupStrips * pairs_in_stage(stage) + pair % stage_pairs) *
               record_bytes();
  }
  constexpr int64_t payload_bytes() const { return strips * pairs * record_bytes(); }
  constexpr int64_t bytes() const { return round_up(payload_bytes(), kStreamAlignment); }
};

// What the aligned 4-byte word at `offset` of a matrix holds: the inverse of record_offset() and the drawing above.
struct StreamWord {
  bool is_scale = false, is_padding = false;  // padding: behind the last record
  int64_t strip = 0, row = 0;                 // row of the strip; scales of MXFP4: g
  int64_t k = 0;  // codes: of element 0; scales: of the record's first element
};
StreamWord stream_word(const StreamMatrix& matrix, int64_t offset);

// The sizes of one expert.
struct StreamSizes {
  StreamMatrix w13, w2;
  int64_t down_start =
      0;  // which element of its scale block h's column 0 is: K of w2 counts from there
  constexpr int64_t w2_offset() const { return w13.bytes(); }
  constexpr int64_t expert_bytes() const { return w13.bytes() + w2.bytes(); }
};
StreamSizes stream_sizes(const ExpertWeights& expert);

// What a block's scale asks of a kernel, the least first. kFast: MXFP4 1 ... 132 (and 0 over zeros alone), NVFP4 neither negative
// nor NaN. kWide: others are rare, and kernels have a second path for layers that hold one. kInfinite: MXFP4 253 and 254, under
// which codes stand for 2^128 and more, infinities (semantics.md section 1), which a code times a power of two is not.
enum class StreamScale : uint8_t { kFast, kWide, kInfinite };
constexpr uint8_t kStreamLargestFastScale = 132;  // 2^5
constexpr StreamScale stream_scale(WeightFormat format, uint8_t scale, bool is_zero) {
  if (format == WeightFormat::kNvfp4)
    return scale >= 0x7F ? StreamScale::kWide : StreamScale::kFast;
  if (scale == 253 || scale == 254) return StreamScale::kInfinite;
  const bool is_wide = scale > kStreamLargestFastScale || (scale == 0 && !is_zero);
  return is_wide ? StreamScale::kWide : StreamScale::kFast;
}

// One strip's records, every byte of them, at their places in the matrix that begins at `matrix`. Returns what its scales ask
// for at most.
StreamScale pack_gate_up_strip(const ExpertWeights& expert, StreamOrder order, int64_t strip,
                               uint8_t* matrix);
StreamScale pack_down_strip(const ExpertWeights& expert, StreamOrder order, int64_t strip,
                            uint8_t* matrix);
// All of an expert; `out` has expert_bytes().
StreamScale pack_stream_expert(const ExpertWeights& expert, StreamOrder order, uint8_t* out);

}  // namespace octet::layouts
