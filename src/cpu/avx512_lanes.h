// SPDX-License-Identifier: Apache-2.0
// What the kernels on digits of the AVX-512 sets share (digit_dot.h says what each part is). Empty for other targets.
#pragma once

#if defined(__AVX512BW__) && defined(__AVX512DQ__)

#include <cstdint>
#include <cstring>
#include <immintrin.h>

#include "cpu/block_sums.h"
#include "cpu/integer_dot.h"
#include "cpu/unroll.h"

namespace octet::cpu::avx512 {
namespace {

struct Lanes {
  using Ints = __m512i;
  using Floats = __m512;
  static constexpr int kLanes = 16;
  static constexpr int kVectors = 1;
  static constexpr int kPlanesTogether = 1;
  template <int kPlanes>
  static constexpr int register_rows() {
    return 4;
  }
  template <int kPlanes>
  static constexpr int vectors_together(int /*rows*/) {
    return 1;
  }

  struct Weights {
    Ints low, high;
  };
  static OCTET_INLINE Weights decode(const uint8_t* line) {
    const Ints v = _mm512_loadu_si512(line);
    return {doubled(v), doubled(_mm512_srli_epi16(v, 4))};
  }
  // 2 w + 12 of each code, four times.
  static OCTET_INLINE Ints table() {
    return _mm512_broadcast_i32x4(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
  }
  // That of the low nibbles' codes.
  static OCTET_INLINE Ints doubled(Ints nibbles) {
    return _mm512_shuffle_epi8(table(), _mm512_and_si512(nibbles, _mm512_set1_epi8(15)));
  }

  struct Digits {
    Ints low, high;
  };
  static OCTET_INLINE Ints broadcast_word(const uint8_t* at) {
    int32_t word;
    std::memcpy(&word, at, sizeof word);
    return _mm512_set1_epi32(word);
  }
  static OCTET_INLINE Digits load_digits(const uint8_t* at, int /*plane*/) {
    return {broadcast_word(at), broadcast_word(at + 4)};
  }

  static OCTET_INLINE Ints first(const uint8_t* offset) { return broadcast_word(offset); }
  static OCTET_INLINE Ints no_ints() { return _mm512_setzero_si512(); }
  static OCTET_INLINE Ints add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
  template <int kBits>
  static OCTET_INLINE Ints shifted(Ints v) {
    return _mm512_slli_epi32(v, kBits);
  }

  template <WeightFormat kFormat>
  static OCTET_INLINE Floats scales(const uint8_t* codes) {
    const Ints code =
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(code, digits::kScaleShift<kFormat>));
  }
  template <WeightFormat kFormat>
  static OCTET_INLINE bool is_ordinary(const uint8_t* codes) {
    const Ints least = _mm512_set1_epi8(static_cast<char>(digits::kOrdinaryFrom<kFormat>));
    const Ints most = _mm512_set1_epi8(
        static_cast<char>(digits::kOrdinaryTo<kFormat> - digits::kOrdinaryFrom<kFormat>));
    return _mm512_cmpgt_epu8_mask(_mm512_sub_epi8(_mm512_loadu_si512(codes), least), most) == 0;
  }

  static OCTET_INLINE Floats zero() { return _mm512_setzero_ps(); }
  static OCTET_INLINE Floats broadcast(const uint8_t* at) {
    return _mm512_set1_ps(digits::load_f32(at));
  }
  static OCTET_INLINE Floats to_floats(Ints v) { return _mm512_cvtepi32_ps(v); }
  static OCTET_INLINE Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static OCTET_INLINE Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  static OCTET_INLINE Floats load(const float* at) { return _mm512_loadu_ps(at); }
  static OCTET_INLINE void store(float* at, Floats v) { _mm512_storeu_ps(at, v); }
};

#ifdef __AVX512VNNI__

// vpdpbusd multiplies 2 w + 12 by four digits and adds all four in int32, so there are no pairs to widen. The planes' sums meet
// at the end of the block.
struct VnniLanes : Lanes {
  template <int kPlanes>
  using Sums = digits::PlaneSums<VnniLanes, kPlanes>;

  template <int kPlanes>
  static OCTET_INLINE void add_eights(Ints (&planes)[kPlanes], const Weights& w, const Digits& x,
                                      int plane) {
    planes[plane] = _mm512_dpbusd_epi32(planes[plane], w.low, x.low);
    planes[plane] = _mm512_dpbusd_epi32(planes[plane], w.high, x.high);
  }
};

#endif

}  // namespace
}  // namespace octet::cpu::avx512

#endif
