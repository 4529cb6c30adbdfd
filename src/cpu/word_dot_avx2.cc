// SPDX-License-Identifier: Apache-2.0
// The kernels on words (words.h) for x86-64 with AVX2 and FMA: three rows and more. A group's weights are decoded once, into
// first-level cache, and all rows go past them, four at a time.
//
//   half a line                      2 w + 12 as bytes; a lane's even bytes as words, its odd ones: pairs of elements
//   vpmaddwd                         times a pair of words, broadcast to all lanes: int32
//
// Rounding: that of digit_dot.h; the block sums are the same integers.
#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "cpu/avx2_lanes.h"
#include "cpu/integer_dot.h"
#include "cpu/panel_dot.h"
#include "cpu/unroll.h"
#include "cpu/words.h"
#include "layouts/panel.h"

namespace octet::cpu {
namespace {

using avx2::Lanes;
constexpr int kLanes = Lanes::kLanes;
constexpr int kHalves = Lanes::kVectors;
constexpr int kPairs = 4;     // vectors of pairs in half a line
constexpr int kTileRows = 4;  // whose sums fit the registers

// A group's weights: lines x pairs x halves of 16 words, and a factor for each block and half.
template <WeightFormat kFormat>
struct Decoded {
  static constexpr int kLines = static_cast<int>(scale_block(kFormat)) / 8;
  alignas(32) int16_t words[layouts::kPanelGroup][kLines * kPairs * kHalves][16];
  alignas(32) float scales[layouts::kPanelGroup][kHalves][kLanes];
};

// Even and odd bytes as words.
OCTET_INLINE void store_pairs(__m256i bytes, int16_t (*out)[16]) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(out[0]),
                     _mm256_and_si256(bytes, _mm256_set1_epi16(255)));
  _mm256_store_si256(reinterpret_cast<__m256i*>(out[kHalves]), _mm256_srli_epi16(bytes, 8));
}

template <WeightFormat kFormat>
OCTET_INLINE void decode_block(const uint8_t* scales, const uint8_t* codes, int64_t b,
                               Decoded<kFormat>& out) {
  for (int line = 0; line < Decoded<kFormat>::kLines; ++line) {
    for (int half = 0; half < kHalves; ++half) {
      const __m256i v =
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + 64 * line + 32 * half));
      int16_t(*const to)[16] = out.words[b] + line * kPairs * kHalves + half;
      store_pairs(Lanes::doubled(v), to);
      store_pairs(Lanes::doubled(_mm256_srli_epi16(v, 4)), to + 2 * kHalves);
    }
  }
  for (int half = 0; half < kHalves; ++half)
    Lanes::store(out.scales[b][half], Lanes::scales<kFormat>(scales + kLanes * half));
}

// Adds one pair of words of a row times its weights, [kHalves][16], to `sums`.
OCTET_INLINE void add_pair(const int16_t (*weights)[16], const uint8_t* pair,
                           __m256i (&sums)[kHalves]) {
  const __m256i words = Lanes::broadcast_word(pair);
  OCTET_UNROLL
  for (int half = 0; half < kHalves; ++half) {
    const __m256i w = _mm256_load_si256(reinterpret_cast<const __m256i*>(weights[half]));
    sums[half] = _mm256_add_epi32(sums[half], _mm256_madd_epi16(w, words));
  }
}

// Adds a block's words times weights to `sums`.
template <WeightFormat kFormat, int kRows>
OCTET_INLINE void add_words(const int16_t (*weights)[16], const uint8_t* const (&x)[kRows],
                            __m256i (&sums)[kRows][kHalves]) {
  for (int pair = 0; pair < Decoded<kFormat>::kLines * kPairs; ++pair) {
    OCTET_UNROLL
    for (int row = 0; row < kRows; ++row) {
      add_pair(weights + pair * kHalves, x[row] + 4 * pair, sums[row]);
      // Row after row: g++ would otherwise multiply for all rows first, and spill.
      asm volatile("" : "+x"(sums[row][0]), "+x"(sums[row][1]));
    }
  }
}

// The low words' part of a row with some: the block's sums become those of A.
template <class Record>
OCTET_INLINE void add_low_words(const int16_t (*weights)[16], const uint8_t* low, uint32_t pairs,
                                __m256i (&sums)[kHalves]) {
  const __m256i offset = Lanes::broadcast_word(low + Record::kLowOffset);
  OCTET_UNROLL
  for (int half = 0; half < kHalves; ++half)
    sums[half] = _mm256_add_epi32(_mm256_slli_epi32(sums[half], kLowWordBits), offset);
  for (; pairs != 0; pairs &= pairs - 1) {
    const int pair = std::countr_zero(pairs);
    add_pair(weights + pair * kHalves, low + 4 * pair, sums);
  }
}

// A group's blocks of a row: records and low words.
struct RowGroup {
  const uint8_t *records, *low;
};
template <class Record>
OCTET_INLINE RowGroup row_group(const uint8_t* row, int64_t num_blocks, int64_t first) {
  return {row + first * Record::kBytes,
          row + num_blocks * Record::kBytes + first * Record::kLowBytes};
}

// Which blocks of a panel.
struct Blocks {
  int64_t num_blocks, first, count;  // of the panel; the group's
};

// A group times kRows rows into out [kRows][16].
template <WeightFormat kFormat, int kPlanes, int kRows>
void add_rows(const Decoded<kFormat>& weights, Blocks blocks, const uint8_t* const* rows,
              float* out) {
  using Record = WordRecord<scale_block(kFormat), kPlanes>;
  const uint8_t *x[kRows], *low[kRows];
  for (int row = 0; row < kRows; ++row) {
    const RowGroup group = row_group<Record>(rows[row], blocks.num_blocks, blocks.first);
    x[row] = group.records;
    low[row] = group.low;
  }
  for (int64_t b = 0; b < blocks.count; ++b) {
    __m256i sums[kRows][kHalves];
    OCTET_UNROLL
    for (int row = 0; row < kRows; ++row)
      sums[row][0] = sums[row][1] = Lanes::broadcast_word(x[row] + Record::kOffset);
    add_words<kFormat, kRows>(weights.words[b], x, sums);
    OCTET_UNROLL
    for (int row = 0; row < kRows; ++row) {
      __m256 unit = _mm256_set1_ps(digits::load_f32(x[row] + Record::kScale));
      if constexpr (kPlanes == 3) {
        const uint32_t pairs = Record::low_pairs(x[row]);
        if (pairs != 0) {
          add_low_words<Record>(weights.words[b], low[row] + b * Record::kLowBytes, pairs,
                                sums[row]);
          unit = _mm256_mul_ps(unit, _mm256_set1_ps(1.0F / (1 << kLowWordBits)));
        }
      }
      OCTET_UNROLL
      for (int half = 0; half < kHalves; ++half) {
        float* const to = out + row * layouts::kPanelRows + half * kLanes;
        const __m256 sum = _mm256_mul_ps(_mm256_cvtepi32_ps(sums[row][half]), unit);
        _mm256_storeu_ps(
            to, _mm256_fmadd_ps(sum, _mm256_load_ps(weights.scales[b][half]), _mm256_loadu_ps(to)));
      }
      x[row] += Record::kBytes;
    }
  }
}

// The same where a scale is not ordinary, from the panel itself.
template <WeightFormat kFormat, int kPlanes>
void add_odd_row(const uint8_t* scales, const uint8_t* codes, Blocks blocks, const uint8_t* row,
                 float* out) {
  constexpr int64_t kBlock = scale_block(kFormat);
  using Record = WordRecord<kBlock, kPlanes>;
  RowGroup group = row_group<Record>(row, blocks.num_blocks, blocks.first);
  for (int64_t b = 0; b < blocks.count; ++b) {
    int32_t x[kBlock];
    for (int64_t k = 0; k < kBlock; ++k) x[k] = Record::value(group.records, group.low, k);
    digits::add_odd_block<Lanes, kFormat>(scales + b * layouts::kPanelRows,
                                          codes + b * layouts::panel_tile_bytes(kFormat), x,
                                          Record::unit(group.records), out);
    group.records += Record::kBytes;
    group.low += Record::kLowBytes;
  }
}

// A group of a panel times all rows, into out [rows, 16].
template <WeightFormat kFormat, int kPlanes>
void add_group(const uint8_t* group, const Ahead& ahead, Blocks blocks, const uint8_t* const* x,
               int num_rows, float* out) {
  constexpr void (*kByRows[kTileRows])(const Decoded<kFormat>&, Blocks, const uint8_t* const*,
                                       float*) = {
      add_rows<kFormat, kPlanes, 1>, add_rows<kFormat, kPlanes, 2>, add_rows<kFormat, kPlanes, 3>,
      add_rows<kFormat, kPlanes, 4>};
  const uint8_t* const codes = group + blocks.count * layouts::kPanelRows;
  digits::prefetch(group, layouts::panel_payload_bytes(kFormat, blocks.count), ahead);
  if (!digits::is_ordinary_group<Lanes, kFormat>(group, blocks.count)) {
    for (int row = 0; row < num_rows; ++row)
      add_odd_row<kFormat, kPlanes>(group, codes, blocks, x[row], out + row * layouts::kPanelRows);
    return;
  }
  Decoded<kFormat> weights;
  for (int64_t b = 0; b < blocks.count; ++b)
    decode_block<kFormat>(group + b * layouts::kPanelRows,
                          codes + b * layouts::panel_tile_bytes(kFormat), b, weights);
  const int tiles = static_cast<int>(ceil_div(num_rows, kTileRows));
  for (int tile = 0; tile < tiles; ++tile) {
    const int row = num_rows * tile / tiles;
    const int rows = num_rows * (tile + 1) / tiles - row;
    kByRows[rows - 1](weights, blocks, x + row, out + row * layouts::kPanelRows);
  }
}

template <WeightFormat kFormat, int kPlanes>
void dot(std::span<const PanelStream> panels, int64_t num_blocks, const uint8_t* const* x,
         int num_rows, float* out) {
  const int64_t panel_out = num_rows * layouts::kPanelRows;
  std::memset(out, 0, panels.size() * static_cast<size_t>(panel_out) * sizeof(float));
  for (int64_t first = 0; first < num_blocks; first += layouts::kPanelGroup) {
    const Blocks blocks{num_blocks, first, std::min(layouts::kPanelGroup, num_blocks - first)};
    float* to = out;
    for (const PanelStream& stream : panels) {
      add_group<kFormat, kPlanes>(
          stream.panel + layouts::panel_group_offset(kFormat, first / layouts::kPanelGroup),
          stream.ahead, blocks, x, num_rows, to);
      to += panel_out;
    }
  }
}

template <WeightFormat kFormat, int kPlanes>
bool encode(const float* x, int64_t num_blocks, uint8_t* out) {
  constexpr int64_t kBlock = scale_block(kFormat);
  using Record = WordRecord<kBlock, kPlanes>;
  uint8_t* low = out + num_blocks * Record::kBytes;
  for (int64_t b = 0; b < num_blocks; ++b) {
    if (!digits::encode_word_block<kFormat, kPlanes>(x + b * kBlock, out, low)) return false;
    out += Record::kBytes;
    low += Record::kLowBytes;
  }
  return true;
}

template <WeightFormat kFormat, int kPlanes>
constexpr IntegerDot kDot{encode<kFormat, kPlanes>, dot<kFormat, kPlanes>, kMostCallRows};

}  // namespace

extern constinit const IntegerDots kWordDotsAvx2 = {
    {kDot<WeightFormat::kMxfp4, 2>, kDot<WeightFormat::kMxfp4, 3>},
    {kDot<WeightFormat::kNvfp4, 2>, kDot<WeightFormat::kNvfp4, 3>}};

}  // namespace octet::cpu
