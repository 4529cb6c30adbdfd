// SPDX-License-Identifier: Apache-2.0
// The kernels on digits for x86-64 with AVX2 and FMA: one row or two. More go through words (word_dot_avx2.cc): the sums of
// three rows do not fit 16 registers.
//
//   half a line: 8 lanes x 8 elements, a nibble each
//     & 15, >> 4, pshufb         2 w + 12 as bytes: elements 0 ... 3 of each lane, elements 4 ... 7
//     vpmaddubsw                 times 4 digits, broadcast to all lanes: pairs in int16, at most 2 * 24 * 128 = 6144
//     vpaddw                     of 16 elements: at most 4 * 6144 = 24576
//     vpmaddwd                   the planes times 1 and 256 into int32, the third shifted by 16
#include "cpu/avx2_lanes.h"
#include "cpu/digit_dot.h"

namespace octet::cpu {
namespace {

struct Avx2 : avx2::Lanes {
  template <int kPlanes>
  struct Sums {
    Ints sum, pairs[kPlanes];
    OCTET_INLINE void start(const uint8_t* offset) { sum = broadcast_word(offset); }
    OCTET_INLINE void add(const Weights& w, const Digits& x, int plane, int line) {
      const Ints four = _mm256_add_epi16(_mm256_maddubs_epi16(w.low, x.low),
                                         _mm256_maddubs_epi16(w.high, x.high));
      pairs[plane] = line % 2 == 0 ? four : _mm256_add_epi16(pairs[plane], four);
      if (line % 2 == 1 && plane == kPlanes - 1) widen();
    }
    OCTET_INLINE void widen() {
      Ints words = _mm256_add_epi32(_mm256_madd_epi16(pairs[0], _mm256_set1_epi16(1)),
                                    _mm256_madd_epi16(pairs[1], _mm256_set1_epi16(256)));
      if constexpr (kPlanes == 3) {
        const Ints third = _mm256_madd_epi16(pairs[2], _mm256_set1_epi16(1));
        words = _mm256_add_epi32(words, _mm256_slli_epi32(third, 16));
      }
      sum = _mm256_add_epi32(sum, words);
    }
    OCTET_INLINE Ints total() const { return sum; }
  };
};

}  // namespace

extern const IntegerDots kDigitDotsAvx2 = digits::digit_dots<Avx2>();

}  // namespace octet::cpu
