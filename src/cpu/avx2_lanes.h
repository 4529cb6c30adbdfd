// SPDX-License-Identifier: Apache-2.0
// What the kernels on digits of AVX2 and of AVX-VNNI share (digit_dot.h says what each part is). Empty for other targets.
#pragma once

#if defined(__AVX2__) && defined(__FMA__)

#include <cstdint>
#include <cstring>
#include <immintrin.h>

#include "cpu/integer_dot.h"
#include "cpu/unroll.h"

namespace octet::cpu::avx2 {
namespace {

struct Lanes {
  using Ints = __m256i;
  using Floats = __m256;
  static constexpr int kLanes = 8;
  static constexpr int kVectors = 2;
  static constexpr int kPlanesTogether = 1;
  template <int kPlanes>
  static constexpr int register_rows() {
    return 2;
  }
  template <int kPlanes>
  static constexpr int vectors_together(int /*rows*/) {
    return 2;
  }

  struct Weights {
    Ints low, high;
  };
  static OCTET_INLINE Weights decode(const uint8_t* line) {
    Ints v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(line));
    asm("" : "+x"(v));  // one load, not one for each use
    return {doubled(v), doubled(_mm256_srli_epi16(v, 4))};
  }
  // 2 w + 12 of the low nibbles' codes.
  static OCTET_INLINE Ints doubled(Ints nibbles) {
    const Ints table = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    return _mm256_shuffle_epi8(table, _mm256_and_si256(nibbles, _mm256_set1_epi8(15)));
  }

  struct Digits {
    Ints low, high;
  };
  static OCTET_INLINE Ints broadcast_word(const uint8_t* at) {
    int32_t word;
    std::memcpy(&word, at, sizeof word);
    return _mm256_set1_epi32(word);
  }
  static OCTET_INLINE Digits load_digits(const uint8_t* at, int /*plane*/) {
    return {broadcast_word(at), broadcast_word(at + 4)};
  }

  static OCTET_INLINE Ints first(const uint8_t* offset) { return broadcast_word(offset); }
  static OCTET_INLINE Ints no_ints() { return _mm256_setzero_si256(); }
  static OCTET_INLINE Ints add(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
  template <int kBits>
  static OCTET_INLINE Ints shifted(Ints v) {
    return _mm256_slli_epi32(v, kBits);
  }

  template <WeightFormat kFormat>
  static OCTET_INLINE Floats scales(const uint8_t* codes) {
    const Ints code =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(code, digits::kScaleShift<kFormat>));
  }
  template <WeightFormat kFormat>
  static OCTET_INLINE bool is_ordinary(const uint8_t* codes) {
    const Ints least = _mm256_set1_epi8(static_cast<char>(digits::kOrdinaryFrom<kFormat>));
    const Ints most = _mm256_set1_epi8(
        static_cast<char>(digits::kOrdinaryTo<kFormat> - digits::kOrdinaryFrom<kFormat>));
    const auto* const halves = reinterpret_cast<const __m256i*>(codes);
    const Ints largest = _mm256_max_epu8(_mm256_sub_epi8(_mm256_loadu_si256(halves), least),
                                         _mm256_sub_epi8(_mm256_loadu_si256(halves + 1), least));
    return _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_max_epu8(largest, most), most)) == -1;
  }

  static OCTET_INLINE Floats zero() { return _mm256_setzero_ps(); }
  static OCTET_INLINE Floats broadcast(const uint8_t* at) {
    return _mm256_set1_ps(digits::load_f32(at));
  }
  static OCTET_INLINE Floats to_floats(Ints v) { return _mm256_cvtepi32_ps(v); }
  static OCTET_INLINE Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static OCTET_INLINE Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
  static OCTET_INLINE Floats load(const float* at) { return _mm256_loadu_ps(at); }
  static OCTET_INLINE void store(float* at, Floats v) { _mm256_storeu_ps(at, v); }
};

}  // namespace
}  // namespace octet::cpu::avx2

#endif
