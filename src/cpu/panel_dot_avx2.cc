// SPDX-License-Identifier: Apache-2.0
// The panel kernels for x86-64 with AVX2, FMA and F16C.
//
//   half a line = 32 bytes = 8 lanes x 8 elements
//     pshufb   bytes 0, 1 of each lane to the front, 2, 3 behind
//     & 15, >> 4               elements 0 ... 3, elements 4 ... 7, a code a byte
//     2 look-ups (pshufb)      upper and lower byte of a BF16 number: the code's, times 2^-8
//     2 interleaves            dword of lane r = elements (0, 1), (2, 3): low half even, high half odd
//     << 16, & 0xFFFF0000      eight binary32 numbers
//
// That is 2.5 instructions for 8 weights where a vpermps of each nibble takes 5.
//
// Rounding. A block's sum has two accumulators, of its even and of its odd elements (a single chain of fma would wait 4
// cycles at each step when there is one row); their sum enters the output's accumulator by one fma with the block's
// scale. The 2^-8 keeps a block's sum of finite activations finite and goes back in with the scale; a product of an
// activation below 2^-140 may fall under 2^-149 with it, and the caller takes `exact` for such rows (quantize.h). A block in
// which a lane's UE8M0 code is above 246 has weights that may be infinite, each on its own: there, and in `exact` always,
// each weight is multiplied by its scale first. So the tree depends on shape, weights and the row alone.
#include <immintrin.h>

#include "cpu/panel_dot.h"
#include "cpu/prefetch.h"
#include "cpu/unroll.h"
#include "layouts/panel.h"

namespace octet::cpu {
namespace {

constexpr int64_t kAheadBytes = 6144;  // into the second-level cache
constexpr float kShrink = 0x1p-8F;     // of the numbers that codes are looked up as
constexpr int kShrinkLog2 = 8;
// The largest UE8M0 code that 2^8 more does not overflow.
constexpr uint8_t kLastSafeScale = 254 - kShrinkLog2;

OCTET_INLINE __m256i both_halves(__m128i v) { return _mm256_broadcastsi128_si256(v); }

OCTET_INLINE __m128i load_scales(const uint8_t* codes) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
}

// Whether no weight of the block can overflow.
template <WeightFormat kFormat>
OCTET_INLINE bool is_safe(__m128i codes) {
  if constexpr (kFormat == WeightFormat::kNvfp4) return true;
  const __m128i last = _mm_set1_epi8(static_cast<char>(kLastSafeScale));
  return _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(codes, last), last)) == 0xFFFF;
}

// Eight UE8M0 codes: exponent fields; code 0 (2^-127, a subnormal) and 255 (NaN) take the mantissa's top bit.
OCTET_INLINE __m256 decode_ue8m0(__m128i codes) {
  const __m256i code = _mm256_cvtepu8_epi32(codes);
  const __m256i odd = _mm256_or_si256(_mm256_cmpeq_epi32(code, _mm256_setzero_si256()),
                                      _mm256_cmpeq_epi32(code, _mm256_set1_epi32(255)));
  const __m256i top = _mm256_and_si256(odd, _mm256_set1_epi32(0x00400000));
  return _mm256_castsi256_ps(_mm256_or_si256(_mm256_slli_epi32(code, 23), top));
}

// Eight safe UE8M0 codes times 2^8: code 0 needs no care here.
OCTET_INLINE __m256 decode_safe_ue8m0(__m128i codes) {
  const __m256i code =
      _mm256_add_epi32(_mm256_cvtepu8_epi32(codes), _mm256_set1_epi32(kShrinkLog2));
  return _mm256_castsi256_ps(_mm256_slli_epi32(code, 23));
}

// Eight E4M3 codes times 2^8, by way of binary16, where they are the same number times 2^-8, subnormals too; 0x7F
// becomes NaN.
OCTET_INLINE __m256 decode_e4m3(__m128i codes) {
  const __m128i code = _mm_cvtepu8_epi16(codes);
  const __m128i magnitude = _mm_and_si128(code, _mm_set1_epi16(0x7F));
  const __m128i nan = _mm_slli_epi16(_mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7F)), 9);
  const __m128i sign = _mm_slli_epi16(_mm_andnot_si128(_mm_set1_epi16(0x7F), code), 8);
  const __m128i half = _mm_or_si128(_mm_or_si128(_mm_slli_epi16(magnitude, 7), sign), nan);
  return _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(0x1p16F));
}

// The scales of lanes 8 * half ... times 2^8.
template <WeightFormat kFormat>
OCTET_INLINE __m256 decode_scales(__m128i codes, int half) {
  const __m128i eight = half == 0 ? codes : _mm_unpackhi_epi64(codes, codes);
  return kFormat == WeightFormat::kMxfp4 ? decode_safe_ue8m0(eight) : decode_e4m3(eight);
}

// A block's sums for kRows rows and kHalves halves: even and odd elements.
template <int kRows, int kHalves>
struct Sums {
  __m256 even[kHalves][kRows], odd[kHalves][kRows];
};

// The scales of lanes 8 * half ... as they are.
template <WeightFormat kFormat>
OCTET_INLINE __m256 decode_exact_scales(__m128i codes, int half) {
  const __m128i eight = half == 0 ? codes : _mm_unpackhi_epi64(codes, codes);
  if constexpr (kFormat == WeightFormat::kMxfp4) return decode_ue8m0(eight);
  return _mm256_mul_ps(decode_e4m3(eight), _mm256_set1_ps(kShrink));
}

// What a weight is multiplied by where its block is not safe.
template <int kHalves>
struct ExactScales {
  __m256 of[kHalves];
};
struct NoScales {};

OCTET_INLINE __m256 scaled(__m256 w, const NoScales&, int) { return w; }
template <int kHalves>
OCTET_INLINE __m256 scaled(__m256 w, const ExactScales<kHalves>& scale, int h) {
  // The look-up's 2^-8 first: the product with the scale is the weight, infinite from 2^128 on.
  return _mm256_mul_ps(_mm256_mul_ps(w, _mm256_set1_ps(1.0F / kShrink)), scale.of[h]);
}

// One line, or the half of it that `codes` points at, times x[row][k] ... x[row][k + 7].
template <int kRows, int kHalves, class Scales>
OCTET_INLINE void add_line(const uint8_t* codes, const Scales& scales,
                           const float* const (&x)[kRows], int64_t k, Sums<kRows, kHalves>& sums) {
  // BF16 numbers of E2M1 codes times 2^-8: 0, 0x3B00, 0x3B80, 0x3BC0, 0x3C00, 0x3C40, 0x3C80, 0x3CC0, and negative.
  const __m256i upper =
      both_halves(_mm_setr_epi8(0, 0x3B, 0x3B, 0x3B, 0x3C, 0x3C, 0x3C, 0x3C, -0x80, -0x45, -0x45,
                                -0x45, -0x44, -0x44, -0x44, -0x44));
  const __m256i lower = both_halves(_mm_setr_epi8(0, 0, -0x80, -0x40, 0, 0x40, -0x80, -0x40, 0, 0,
                                                  -0x80, -0x40, 0, 0x40, -0x80, -0x40));
  const __m256i order =
      both_halves(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
  const __m256i nibble = _mm256_set1_epi8(15);
  const __m256i high_half = _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
  __m256i bytes[kHalves];
  OCTET_UNROLL
  for (int h = 0; h < kHalves; ++h) {
    bytes[h] = _mm256_shuffle_epi8(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + 32 * h)), order);
  }
  OCTET_UNROLL
  for (int n = 0; n < 2; ++n) {
    __m256i hi[kHalves], lo[kHalves];
    OCTET_UNROLL
    for (int h = 0; h < kHalves; ++h) {
      const __m256i code =
          _mm256_and_si256(n == 0 ? bytes[h] : _mm256_srli_epi16(bytes[h], 4), nibble);
      hi[h] = _mm256_shuffle_epi8(upper, code);
      lo[h] = _mm256_shuffle_epi8(lower, code);
    }
    OCTET_UNROLL
    for (int p = 0; p < 2; ++p) {
      OCTET_UNROLL
      for (int h = 0; h < kHalves; ++h) {
        const __m256i two =
            p == 0 ? _mm256_unpacklo_epi8(lo[h], hi[h]) : _mm256_unpackhi_epi8(lo[h], hi[h]);
        const __m256 even = scaled(_mm256_castsi256_ps(_mm256_slli_epi32(two, 16)), scales, h);
        const __m256 odd = scaled(_mm256_castsi256_ps(_mm256_and_si256(two, high_half)), scales, h);
        OCTET_UNROLL
        for (int row = 0; row < kRows; ++row) {
          const float* at = x[row] + k + 4 * n + 2 * p;
          sums.even[h][row] = _mm256_fmadd_ps(even, _mm256_broadcast_ss(at), sums.even[h][row]);
          sums.odd[h][row] = _mm256_fmadd_ps(odd, _mm256_broadcast_ss(at + 1), sums.odd[h][row]);
        }
      }
    }
  }
}

template <WeightFormat kFormat, int kRows, int kHalves, class Scales>
OCTET_INLINE Sums<kRows, kHalves> sum_block(const uint8_t* codes, const Scales& scales,
                                            const float* const (&x)[kRows], int64_t k) {
  constexpr int64_t kLines = scale_block(kFormat) / 8;
  Sums<kRows, kHalves> sums;
  OCTET_UNROLL
  for (int h = 0; h < kHalves; ++h) {
    OCTET_UNROLL
    for (int row = 0; row < kRows; ++row)
      sums.even[h][row] = sums.odd[h][row] = _mm256_setzero_ps();
  }
  for (int64_t i = 0; i < kLines; ++i) {
    // One a line: all of a group's at once would fill the miss buffers. (Unrolling this loop makes g++ keep the addresses
    // of all x in memory: 12.6 instead of 8.9 ns for 64 weights and four rows.)
    prefetch_line(reinterpret_cast<uintptr_t>(codes) + 64 * i + kAheadBytes, false);
    add_line<kRows, kHalves>(codes + 64 * i, scales, x, k + 8 * i, sums);
  }
  return sums;
}

// One block into acc[half][row]; kHalves halves from `half` on.
template <WeightFormat kFormat, int kRows, int kHalves, bool kExact>
OCTET_INLINE void add_block(const uint8_t* scale_codes, const uint8_t* codes, int half,
                            const float* const (&x)[kRows], int64_t k, __m256 (*acc)[kRows]) {
  const __m128i scales = load_scales(scale_codes);
  Sums<kRows, kHalves> sums;
  __m256 factor[kHalves];
  if (!kExact && is_safe<kFormat>(scales)) {
    sums = sum_block<kFormat, kRows, kHalves>(codes + 32 * half, NoScales{}, x, k);
    OCTET_UNROLL
    for (int h = 0; h < kHalves; ++h) factor[h] = decode_scales<kFormat>(scales, half + h);
  } else {
    ExactScales<kHalves> exact;
    OCTET_UNROLL
    for (int h = 0; h < kHalves; ++h) {
      exact.of[h] = decode_exact_scales<kFormat>(scales, half + h);
      factor[h] = _mm256_set1_ps(1.0F);
    }
    sums = sum_block<kFormat, kRows, kHalves>(codes + 32 * half, exact, x, k);
  }
  OCTET_UNROLL
  for (int h = 0; h < kHalves; ++h) {
    OCTET_UNROLL
    for (int row = 0; row < kRows; ++row) {
      acc[half + h][row] = _mm256_fmadd_ps(_mm256_add_ps(sums.even[h][row], sums.odd[h][row]),
                                           factor[h], acc[half + h][row]);
    }
  }
}

// Up to two rows both halves go together (8 sums); more rows fill the registers with one half.
template <WeightFormat kFormat, int kRows, bool kExact>
void dot(const uint8_t* panel, int64_t num_blocks, const float* const* rows, float* out) {
  constexpr int kHalves = kRows <= 2 ? 2 : 1;
  const float* x[kRows];
  __m256 acc[2][kRows];
  for (int row = 0; row < kRows; ++row) {
    x[row] = rows[row];
    acc[0][row] = acc[1][row] = _mm256_setzero_ps();
  }
  for (int64_t first = 0; first < num_blocks; first += layouts::kPanelGroup) {
    const int64_t group = first / layouts::kPanelGroup;
    const int64_t count = layouts::panel_blocks_in_group(num_blocks, group);
    const uint8_t* scales = panel + layouts::panel_group_offset(kFormat, group);
    const uint8_t* codes = scales + count * layouts::kPanelRows;
    prefetch_line(reinterpret_cast<uintptr_t>(scales) + kAheadBytes, false);
    for (int64_t b = 0; b < count; ++b) {
      for (int half = 0; half < 2; half += kHalves) {
        add_block<kFormat, kRows, kHalves, kExact>(
            scales + b * layouts::kPanelRows, codes + b * layouts::panel_tile_bytes(kFormat), half,
            x, (first + b) * scale_block(kFormat), acc);
      }
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int half = 0; half < 2; ++half)
      _mm256_storeu_ps(out + row * layouts::kPanelRows + 8 * half, acc[half][row]);
  }
}

template <WeightFormat kFormat>
void dot_rows(const uint8_t* panel, int64_t num_blocks, const float* const* x, int num_rows,
              float* out) {
  constexpr void (*kByRows[])(const uint8_t*, int64_t, const float* const*, float*) = {
      dot<kFormat, 1, false>, dot<kFormat, 2, false>, dot<kFormat, 3, false>,
      dot<kFormat, 4, false>};
  kByRows[num_rows - 1](panel, num_blocks, x, out);
}

template <WeightFormat kFormat>
void dot_exact(const uint8_t* panel, int64_t num_blocks, const float* const* x, int /*num_rows*/,
               float* out) {
  dot<kFormat, 1, true>(panel, num_blocks, x, out);
}

}  // namespace

const FloatDots kFloatDotsAvx2{
    {dot_rows<WeightFormat::kMxfp4>, dot_exact<WeightFormat::kMxfp4>},
    {dot_rows<WeightFormat::kNvfp4>, dot_exact<WeightFormat::kNvfp4>},
    &kLanesAvx2,
};

}  // namespace octet::cpu
