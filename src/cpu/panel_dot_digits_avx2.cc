// SPDX-License-Identifier: Apache-2.0
// The panel kernels on digits (digits.h) for x86-64 with AVX2 and FMA.
//
//   line, a half of it: 8 lanes x 8 elements, a nibble each
//     & 15, >> 4, pshufb         2 w + 12 as bytes: elements 0 ... 3 of each lane, elements 4 ... 7
//     vpmaddubsw                 times 4 digits, broadcast to all lanes: pairs in int16, at most 2 * 24 * 128 = 6144
//     vpaddw                     of 16 elements: at most 4 * 6144 = 24576
//     vpmaddwd                   lower plane times 1, upper plane times 256, into int32
//
// Rounding. The block's sum is exact in int32 and rounded once to binary32 (it has up to 24 bits with two planes: exact);
// times the activations' scale is exact; one fma with the weights' scale adds it to the output. So the tree depends on the
// shape alone. A third plane adds its sum times 2^16 where a block has one.
//
// Weight scales that the shifts below do not decode (UE8M0 0, 253 and more; negative E4M3, NaN) are looked for a group at a
// time; such a group goes lane by lane through plain code with the same tree. semantics.md section 1.
#include <cmath>
#include <cstring>
#include <immintrin.h>

#include "cpu/digits.h"
#include "cpu/panel_dot.h"
#include "formats/mxfp4.h"
#include "formats/nvfp4.h"
#include "layouts/panel.h"

#define OCTET_INLINE inline __attribute__((always_inline))
#ifdef __clang__
#define OCTET_UNROLL _Pragma("unroll")
#else
#define OCTET_UNROLL _Pragma("GCC unroll 16")
#endif

namespace octet::cpu {
namespace {

constexpr int64_t kPrefetchBytes = 3072;  // how far ahead of use a line is asked for
constexpr int kLanes = 8;                 // of a half

OCTET_INLINE __m256i load32(const uint8_t* at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}
OCTET_INLINE __m256i broadcast4(const uint8_t* at) {
  int32_t word;
  std::memcpy(&word, at, sizeof word);
  return _mm256_set1_epi32(word);
}
OCTET_INLINE float load_f32(const uint8_t* at) {
  float v;
  std::memcpy(&v, at, sizeof v);
  return v;
}

// 2 w + 12 of the low nibbles' codes.
OCTET_INLINE __m256i doubled(__m256i nibbles) {
  const __m256i table = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
  return _mm256_shuffle_epi8(table, _mm256_and_si256(nibbles, _mm256_set1_epi8(15)));
}

// Eight ordinary scales; of NVFP4 times 2^-120 (digits.h, digit_gain): exponent and mantissa where binary32 has them.
template <WeightFormat kFormat>
OCTET_INLINE __m256 ordinary_scales(const uint8_t* codes) {
  const __m256i code =
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(code, kFormat == WeightFormat::kMxfp4 ? 23 : 20));
}

// Whether ordinary_scales() decodes all 32 of `codes`.
template <WeightFormat kFormat>
OCTET_INLINE __m256i ordinary(__m256i codes) {
  if constexpr (kFormat == WeightFormat::kMxfp4) {
    const __m256i clamped =
        _mm256_min_epu8(_mm256_max_epu8(codes, _mm256_set1_epi8(1)),
                        _mm256_set1_epi8(static_cast<char>(formats::kMxfp4LastFinite)));
    return _mm256_cmpeq_epi8(clamped, codes);
  }
  return _mm256_cmpeq_epi8(_mm256_min_epu8(codes, _mm256_set1_epi8(0x7E)), codes);
}

// Adds one plane's products, times 2^shift.
template <WeightFormat kFormat, int kHalves>
OCTET_INLINE void add_plane(const uint8_t* codes, const uint8_t* digits, int shift,
                            __m256i (&sum)[kHalves]) {
  constexpr int kLines = static_cast<int>(scale_block(kFormat)) / 8;
  OCTET_UNROLL
  for (int line = 0; line < kLines; ++line) {
    const __m256i low = broadcast4(digits + 8 * line);
    const __m256i high = broadcast4(digits + 8 * line + 4);
    OCTET_UNROLL
    for (int h = 0; h < kHalves; ++h) {
      const __m256i v = load32(codes + 64 * line + 32 * h);
      const __m256i pairs =
          _mm256_add_epi16(_mm256_maddubs_epi16(doubled(v), low),
                           _mm256_maddubs_epi16(doubled(_mm256_srli_epi16(v, 4)), high));
      const __m256i words = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
      sum[h] = _mm256_add_epi32(sum[h], _mm256_slli_epi32(words, shift));
    }
  }
}

// int32 sums of planes 0 and 1 for kRows rows, and of plane 2 where a row's block has one.
template <WeightFormat kFormat, int kPlanes, int kRows, int kHalves>
OCTET_INLINE void sum_block(const uint8_t* codes, const uint8_t* const (&x)[kRows], int64_t at,
                            __m256i (&sum)[kRows][kHalves]) {
  constexpr int64_t kBlock = scale_block(kFormat);
  using Record = DigitRecord<kBlock, kPlanes>;
  OCTET_UNROLL
  for (int sixteen = 0; sixteen < kBlock / 16; ++sixteen) {
    __m256i pairs[kHalves][kRows][2];  // int16: four products a lane, of planes 0 and 1
    OCTET_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int line = 2 * sixteen + i;
      __m256i low[kHalves], high[kHalves];
      OCTET_UNROLL
      for (int h = 0; h < kHalves; ++h) {
        __m256i v = load32(codes + 64 * line + 32 * h);
        asm("" : "+x"(v));  // one load, not one for each use
        low[h] = doubled(v);
        high[h] = doubled(_mm256_srli_epi16(v, 4));
      }
      OCTET_UNROLL
      for (int row = 0; row < kRows; ++row) {
        OCTET_UNROLL
        for (int p = 0; p < 2; ++p) {
          const uint8_t* digits = x[row] + at + p * kBlock + 8 * line;
          const __m256i x_low = broadcast4(digits);
          const __m256i x_high = broadcast4(digits + 4);
          OCTET_UNROLL
          for (int h = 0; h < kHalves; ++h) {
            const __m256i t = _mm256_add_epi16(_mm256_maddubs_epi16(low[h], x_low),
                                               _mm256_maddubs_epi16(high[h], x_high));
            pairs[h][row][p] = i == 0 ? t : _mm256_add_epi16(pairs[h][row][p], t);
          }
        }
      }
    }
    OCTET_UNROLL
    for (int row = 0; row < kRows; ++row) {
      OCTET_UNROLL
      for (int h = 0; h < kHalves; ++h) {
        const __m256i words =
            _mm256_add_epi32(_mm256_madd_epi16(pairs[h][row][0], _mm256_set1_epi16(1)),
                             _mm256_madd_epi16(pairs[h][row][1], _mm256_set1_epi16(256)));
        sum[row][h] = _mm256_add_epi32(
            sixteen == 0 ? broadcast4(x[row] + at + Record::kOffset) : sum[row][h], words);
      }
    }
  }
  if constexpr (kPlanes == 3) {
    OCTET_UNROLL
    for (int row = 0; row < kRows; ++row) {
      const uint8_t* record = x[row] + at;
      if (Record::has_third(record))
        add_plane<kFormat, kHalves>(codes, record + 2 * kBlock, 16, sum[row]);
    }
  }
}

// One block into acc[row][half] of kHalves halves.
template <WeightFormat kFormat, int kPlanes, int kRows, int kHalves>
OCTET_INLINE void add_block(const uint8_t* scales, const uint8_t* codes,
                            const uint8_t* const (&x)[kRows], int64_t at, __m256 (&acc)[kRows][2],
                            int half) {
  using Record = DigitRecord<scale_block(kFormat), kPlanes>;
  __m256i sum[kRows][kHalves];
  sum_block<kFormat, kPlanes, kRows, kHalves>(codes + 32 * half, x, at, sum);
  __m256 scale[kHalves];
  OCTET_UNROLL
  for (int h = 0; h < kHalves; ++h)
    scale[h] = ordinary_scales<kFormat>(scales + kLanes * (half + h));
  OCTET_UNROLL
  for (int row = 0; row < kRows; ++row) {
    const __m256 unit = _mm256_set1_ps(load_f32(x[row] + at + Record::kScale));
    OCTET_UNROLL
    for (int h = 0; h < kHalves; ++h) {
      acc[row][half + h] = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sum[row][h]), unit),
                                           scale[h], acc[row][half + h]);
    }
  }
}

// A block whose scales are not all ordinary, one lane after the other: the tree of add_block(). A UE8M0 code from 253 on
// gives weights that may be infinite each on its own: there the products are summed one by one.
template <WeightFormat kFormat, int kPlanes>
__attribute__((noinline)) void add_odd_block(const uint8_t* scales, const uint8_t* codes,
                                             const uint8_t* record, float* acc) {
  constexpr int64_t kBlock = scale_block(kFormat);
  using Record = DigitRecord<kBlock, kPlanes>;
  const float unit = load_f32(record + Record::kScale);
  int32_t x[kBlock];
  const bool has_third = kPlanes == 3 && Record::has_third(record);
  for (int64_t k = 0; k < kBlock; ++k) {
    x[k] = 256 * static_cast<int8_t>(record[kBlock + k]) + static_cast<int8_t>(record[k]);
    if (has_third) x[k] += 65536 * static_cast<int8_t>(record[2 * kBlock + k]);
  }
  for (int64_t lane = 0; lane < layouts::kPanelRows; ++lane) {
    const auto code = [&](int64_t k) {
      const layouts::NibblePosition at = layouts::panel_tile_position(lane, k);
      return static_cast<uint8_t>(codes[at.byte] >> at.shift & 15);
    };
    if (kFormat == WeightFormat::kMxfp4 && scales[lane] > formats::kMxfp4LastFinite) {
      for (int64_t k = 0; k < kBlock; ++k) {
        const float w = formats::mxfp4_to_f32(code(k), scales[lane]);
        acc[lane] = std::fma(static_cast<float>(x[k]) * unit * 2.0F, w, acc[lane]);
      }
      continue;
    }
    int32_t sum = 0;
    for (int64_t k = 0; k < kBlock; ++k) sum += formats::e2m1_doubled(code(k)) * x[k];
    const float scale = kFormat == WeightFormat::kMxfp4
                            ? formats::ue8m0_to_f32(scales[lane])
                            : formats::e4m3_to_f32(scales[lane]) * 0x1p-120F;
    acc[lane] = std::fma(static_cast<float>(sum) * unit, scale, acc[lane]);
  }
}

// The blocks of one group, scales first.
template <WeightFormat kFormat, int kPlanes, int kRows>
OCTET_INLINE void add_group(const uint8_t* group, int64_t num_blocks, bool is_ordinary,
                            const uint8_t* const (&x)[kRows], __m256 (&acc)[kRows][2]) {
  constexpr int kHalves = kRows <= 2 ? 2 : 1;
  constexpr int64_t kRecord = DigitRecord<scale_block(kFormat), kPlanes>::kBytes;
  constexpr int64_t kTile = layouts::panel_tile_bytes(kFormat);
  const uint8_t* codes = group + num_blocks * layouts::kPanelRows;
  if (is_ordinary) {
    OCTET_UNROLL
    for (int64_t b = 0; b < num_blocks; ++b) {
      // A few lines a block: all of a group's at once would fill the miss buffers.
      OCTET_UNROLL
      for (int64_t line = 0; line < kTile; line += 64)
        _mm_prefetch(reinterpret_cast<const char*>(codes + b * kTile + line + kPrefetchBytes),
                     _MM_HINT_T0);
      OCTET_UNROLL
      for (int half = 0; half < 2; half += kHalves) {
        add_block<kFormat, kPlanes, kRows, kHalves>(group + b * layouts::kPanelRows,
                                                    codes + b * kTile, x, b * kRecord, acc, half);
      }
    }
    return;
  }
  for (int row = 0; row < kRows; ++row) {
    alignas(32) float lanes[layouts::kPanelRows];
    _mm256_store_ps(lanes, acc[row][0]);
    _mm256_store_ps(lanes + kLanes, acc[row][1]);
    for (int64_t b = 0; b < num_blocks; ++b)
      add_odd_block<kFormat, kPlanes>(group + b * layouts::kPanelRows, codes + b * kTile,
                                      x[row] + b * kRecord, lanes);
    acc[row][0] = _mm256_load_ps(lanes);
    acc[row][1] = _mm256_load_ps(lanes + kLanes);
  }
}

template <WeightFormat kFormat>
OCTET_INLINE bool is_ordinary_group(const uint8_t* scales) {
  const __m256i both =
      _mm256_and_si256(ordinary<kFormat>(load32(scales)), ordinary<kFormat>(load32(scales + 32)));
  return _mm256_movemask_epi8(both) == -1;
}

// Of the last group, which may have fewer than four blocks.
template <WeightFormat kFormat>
bool is_ordinary_tail(const uint8_t* scales, int64_t num_blocks) {
  for (int64_t i = 0; i < num_blocks * layouts::kPanelRows; i += 16) {
    const __m128i sixteen = _mm_loadu_si128(reinterpret_cast<const __m128i*>(scales + i));
    if (_mm256_movemask_epi8(ordinary<kFormat>(_mm256_broadcastsi128_si256(sixteen))) != -1)
      return false;
  }
  return true;
}

template <WeightFormat kFormat, int kPlanes, int kRows>
void dot(const uint8_t* panel, int64_t num_blocks, const uint8_t* const* rows, float* out) {
  constexpr int64_t kRecord = DigitRecord<scale_block(kFormat), kPlanes>::kBytes;
  const uint8_t* x[kRows];
  __m256 acc[kRows][2];
  for (int row = 0; row < kRows; ++row) {
    x[row] = rows[row];
    acc[row][0] = acc[row][1] = _mm256_setzero_ps();
  }
  for (; num_blocks >= layouts::kPanelGroup; num_blocks -= layouts::kPanelGroup) {
    _mm_prefetch(reinterpret_cast<const char*>(panel + kPrefetchBytes), _MM_HINT_T0);
    add_group<kFormat, kPlanes, kRows>(panel, layouts::kPanelGroup,
                                       is_ordinary_group<kFormat>(panel), x, acc);
    panel += layouts::panel_payload_bytes(kFormat, layouts::kPanelGroup);
    for (int row = 0; row < kRows; ++row) x[row] += layouts::kPanelGroup * kRecord;
  }
  if (num_blocks > 0) {
    add_group<kFormat, kPlanes, kRows>(panel, num_blocks,
                                       is_ordinary_tail<kFormat>(panel, num_blocks), x, acc);
  }
  for (int row = 0; row < kRows; ++row) {
    _mm256_storeu_ps(out + row * layouts::kPanelRows, acc[row][0]);
    _mm256_storeu_ps(out + row * layouts::kPanelRows + kLanes, acc[row][1]);
  }
}

template <WeightFormat kFormat, int kPlanes>
void dot_rows(const uint8_t* panel, int64_t num_blocks, const uint8_t* const* x, int num_rows,
              float* out) {
  constexpr void (*kByRows[])(const uint8_t*, int64_t, const uint8_t* const*, float*) = {
      dot<kFormat, kPlanes, 1>, dot<kFormat, kPlanes, 2>, dot<kFormat, kPlanes, 3>,
      dot<kFormat, kPlanes, 4>};
  kByRows[num_rows - 1](panel, num_blocks, x, out);
}

template <WeightFormat kFormat, int kPlanes>
bool encode(const float* x, int64_t num_blocks, uint8_t* out) {
  return digits::encode_row<kFormat, kPlanes>(x, num_blocks, out);
}

template <WeightFormat kFormat, int kPlanes>
constexpr DigitDot kDot{encode<kFormat, kPlanes>, dot_rows<kFormat, kPlanes>};

}  // namespace

extern const DigitDot kDigitDotMxfp4Avx2[2] = {kDot<WeightFormat::kMxfp4, 2>,
                                               kDot<WeightFormat::kMxfp4, 3>};
extern const DigitDot kDigitDotNvfp4Avx2[2] = {kDot<WeightFormat::kNvfp4, 2>,
                                               kDot<WeightFormat::kNvfp4, 3>};

}  // namespace octet::cpu
