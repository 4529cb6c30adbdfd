// SPDX-License-Identifier: Apache-2.0
// The panel kernels for x86-64 with AVX2, FMA and F16C.
//
//   half a line = 32 bytes = 8 lanes x 8 elements
//     pshufb   bytes 0, 1 of each lane to the front, 2, 3 behind
//     & 15, >> 4               elements 0 ... 3, elements 4 ... 7, a code a byte
//     2 look-ups (pshufb)      upper and lower byte of the BF16 number that the code is
//     2 interleaves            dword of lane r = elements (0, 1), (2, 3): low half even, high half odd
//     << 16, & 0xFFFF0000      eight binary32 numbers; times the lanes' scales: the weights
//
// That is 2.5 instructions for 8 weights where a vpermps of each nibble takes 5. An accumulator of its own for even and
// odd elements keeps twice as many fma under way: with one row a single chain would wait 4 cycles at each step.
#include <immintrin.h>

#include "cpu/panel_dot.h"
#include "layouts/panel.h"

#ifdef __clang__
#define OCTET_UNROLL _Pragma("unroll")
#else
#define OCTET_UNROLL _Pragma("GCC unroll 16")
#endif

namespace octet::cpu {
namespace {

constexpr int64_t kPrefetchBytes = 3072;  // how far ahead of use a line is asked for

inline __m256i both_halves(__m128i v) { return _mm256_broadcastsi128_si256(v); }

// Eight UE8M0 codes: exponent fields; code 0 (2^-127, a subnormal) and 255 (NaN) take the mantissa's top bit.
inline __m256 decode_ue8m0(const uint8_t* codes) {
  const __m256i code =
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
  const __m256i odd = _mm256_or_si256(_mm256_cmpeq_epi32(code, _mm256_setzero_si256()),
                                      _mm256_cmpeq_epi32(code, _mm256_set1_epi32(255)));
  const __m256i top = _mm256_and_si256(odd, _mm256_set1_epi32(0x00400000));
  return _mm256_castsi256_ps(_mm256_or_si256(_mm256_slli_epi32(code, 23), top));
}

// Eight E4M3 codes by way of binary16, where they are the same number times 2^-8, subnormals too; 0x7F becomes NaN.
inline __m256 decode_e4m3(const uint8_t* codes) {
  const __m128i code = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
  const __m128i magnitude = _mm_and_si128(code, _mm_set1_epi16(0x7F));
  const __m128i nan =
      _mm_and_si128(_mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7F)), _mm_set1_epi16(0x7E00));
  const __m128i sign = _mm_slli_epi16(_mm_andnot_si128(_mm_set1_epi16(0x7F), code), 8);
  const __m128i half = _mm_or_si128(_mm_or_si128(_mm_slli_epi16(magnitude, 7), sign), nan);
  return _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256.0F));
}

template <WeightFormat kFormat>
inline __m256 decode_scales(const uint8_t* codes) {
  return kFormat == WeightFormat::kMxfp4 ? decode_ue8m0(codes) : decode_e4m3(codes);
}

// Two elements of eight lanes.
struct Pair {
  __m256 even, odd;
};

// Weights of half a line: pairs (0, 1), (2, 3), (4, 5), (6, 7).
inline void decode_half_line(const uint8_t* codes, __m256 scale, Pair (&w)[4]) {
  // BF16 numbers of E2M1 codes: 0, 0x3F00, 0x3F80, 0x3FC0, 0x4000, 0x4040, 0x4080, 0x40C0, and negative.
  const __m256i upper =
      both_halves(_mm_setr_epi8(0, 0x3F, 0x3F, 0x3F, 0x40, 0x40, 0x40, 0x40, -0x80, -0x41, -0x41,
                                -0x41, -0x40, -0x40, -0x40, -0x40));
  const __m256i lower = both_halves(_mm_setr_epi8(0, 0, -0x80, -0x40, 0, 0x40, -0x80, -0x40, 0, 0,
                                                  -0x80, -0x40, 0, 0x40, -0x80, -0x40));
  const __m256i order =
      both_halves(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
  const __m256i nibble = _mm256_set1_epi8(15);
  const __m256i high_half = _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
  const __m256i bytes =
      _mm256_shuffle_epi8(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes)), order);
  OCTET_UNROLL
  for (int n = 0; n < 2; ++n) {
    const __m256i code = _mm256_and_si256(n == 0 ? bytes : _mm256_srli_epi16(bytes, 4), nibble);
    const __m256i hi = _mm256_shuffle_epi8(upper, code);
    const __m256i lo = _mm256_shuffle_epi8(lower, code);
    OCTET_UNROLL
    for (int p = 0; p < 2; ++p) {
      const __m256i two = p == 0 ? _mm256_unpacklo_epi8(lo, hi) : _mm256_unpackhi_epi8(lo, hi);
      w[2 * n + p].even = _mm256_mul_ps(_mm256_castsi256_ps(_mm256_slli_epi32(two, 16)), scale);
      w[2 * n + p].odd =
          _mm256_mul_ps(_mm256_castsi256_ps(_mm256_and_si256(two, high_half)), scale);
    }
  }
}

// One line of kHalves halves from `codes` on, for kRows rows; acc[half][row][even, odd].
template <int kRows, int kHalves>
inline void line(const uint8_t* codes, const __m256 (&scale)[kHalves], const float* const* x,
                 int64_t k, __m256 (&acc)[kHalves][kRows][2]) {
  Pair w[kHalves][4];
  OCTET_UNROLL
  for (int h = 0; h < kHalves; ++h) decode_half_line(codes + 32 * h, scale[h], w[h]);
  OCTET_UNROLL
  for (int p = 0; p < 4; ++p) {
    OCTET_UNROLL
    for (int row = 0; row < kRows; ++row) {
      const __m256 x_even = _mm256_broadcast_ss(x[row] + k + 2 * p);
      const __m256 x_odd = _mm256_broadcast_ss(x[row] + k + 2 * p + 1);
      OCTET_UNROLL
      for (int h = 0; h < kHalves; ++h) {
        acc[h][row][0] = _mm256_fmadd_ps(w[h][p].even, x_even, acc[h][row][0]);
        acc[h][row][1] = _mm256_fmadd_ps(w[h][p].odd, x_odd, acc[h][row][1]);
      }
    }
  }
}

// `num_blocks` blocks of a group, lanes from 8 * half on; `state` holds the accumulators between groups.
template <WeightFormat kFormat, int kRows, int kHalves>
inline void group(const uint8_t* scales, int64_t num_blocks, int half, const float* const* rows,
                  int64_t k, __m256 (*state)[kRows][2]) {
  constexpr int64_t kBlock = scale_block(kFormat);
  const uint8_t* codes = scales + num_blocks * layouts::kPanelRows + 32 * half;
  const float* x[kRows];
  __m256 acc[kHalves][kRows][2];
  OCTET_UNROLL
  for (int row = 0; row < kRows; ++row) {
    x[row] = rows[row];
    OCTET_UNROLL
    for (int h = 0; h < kHalves; ++h) {
      acc[h][row][0] = state[half + h][row][0];
      acc[h][row][1] = state[half + h][row][1];
    }
  }
  if (half == 0) _mm_prefetch(reinterpret_cast<const char*>(scales + kPrefetchBytes), _MM_HINT_T0);
  for (int64_t b = 0; b < num_blocks; ++b) {
    __m256 scale[kHalves];
    OCTET_UNROLL
    for (int h = 0; h < kHalves; ++h) {
      scale[h] = decode_scales<kFormat>(scales + b * layouts::kPanelRows + 8 * (half + h));
    }
    OCTET_UNROLL
    for (int64_t i = 0; i < kBlock / 8; ++i) {
      if (half == 0) {  // one a line: all of a group's at once would fill the miss buffers
        _mm_prefetch(reinterpret_cast<const char*>(codes + kPrefetchBytes), _MM_HINT_T0);
      }
      line<kRows, kHalves>(codes, scale, x, k, acc);
      codes += 64;
      k += 8;
    }
  }
  OCTET_UNROLL
  for (int row = 0; row < kRows; ++row) {
    OCTET_UNROLL
    for (int h = 0; h < kHalves; ++h) {
      state[half + h][row][0] = acc[h][row][0];
      state[half + h][row][1] = acc[h][row][1];
    }
  }
}

// Up to two rows both halves go together (8 accumulators); more rows fill the registers with one half.
template <WeightFormat kFormat, int kRows>
void dot(const uint8_t* panel, int64_t num_blocks, const float* const* x, float* out) {
  constexpr int kHalves = kRows <= 2 ? 2 : 1;
  __m256 state[2][kRows][2];
  for (auto& half : state) {
    for (auto& row : half) row[0] = row[1] = _mm256_setzero_ps();
  }
  for (int64_t block = 0; block < num_blocks; block += layouts::kPanelGroup) {
    const int64_t index = block / layouts::kPanelGroup;
    const uint8_t* start = panel + layouts::panel_group_offset(kFormat, index);
    const int64_t count = layouts::panel_blocks_in_group(num_blocks, index);
    for (int half = 0; half < 2; half += kHalves) {
      group<kFormat, kRows, kHalves>(start, count, half, x, block * scale_block(kFormat), state);
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int half = 0; half < 2; ++half) {
      _mm256_storeu_ps(out + row * layouts::kPanelRows + 8 * half,
                       _mm256_add_ps(state[half][row][0], state[half][row][1]));
    }
  }
}

template <WeightFormat kFormat>
void dot_rows(const uint8_t* panel, int64_t num_blocks, const float* const* x, int num_rows,
              float* out) {
  constexpr void (*kByRows[])(const uint8_t*, int64_t, const float* const*, float*) = {
      dot<kFormat, 1>, dot<kFormat, 2>, dot<kFormat, 3>, dot<kFormat, 4>};
  kByRows[num_rows - 1](panel, num_blocks, x, out);
}

}  // namespace

const PanelDot kPanelDotAvx2{dot_rows<WeightFormat::kMxfp4>, dot_rows<WeightFormat::kNvfp4>};

}  // namespace octet::cpu
