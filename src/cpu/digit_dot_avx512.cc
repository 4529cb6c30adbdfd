// SPDX-License-Identifier: Apache-2.0
// The kernels on digits for x86-64 with AVX-512 (F, BW, DQ, VL): a line of a tile is one vector, its 16 lanes the panel's.
// The steps are those of digit_dot_avx2.cc, twice as wide.
#include "cpu/avx512_lanes.h"
#include "cpu/digit_dot.h"

namespace octet::cpu {
namespace {

struct Avx512 : avx512::Lanes {
  template <int kPlanes>
  static constexpr int register_rows() {
    return 4;
  }

  template <int kPlanes>
  struct Sums {
    Ints sum, pairs[kPlanes];
    OCTET_INLINE void start(const uint8_t* offset) { sum = broadcast_word(offset); }
    OCTET_INLINE void add(const Weights& w, const Digits& x, int plane, int line) {
      const Ints four = _mm512_add_epi16(_mm512_maddubs_epi16(w.low, x.low),
                                         _mm512_maddubs_epi16(w.high, x.high));
      pairs[plane] = line % 2 == 0 ? four : _mm512_add_epi16(pairs[plane], four);
      if (line % 2 == 1 && plane == kPlanes - 1) widen();
    }
    OCTET_INLINE void widen() {
      Ints words = _mm512_add_epi32(_mm512_madd_epi16(pairs[0], _mm512_set1_epi16(1)),
                                    _mm512_madd_epi16(pairs[1], _mm512_set1_epi16(256)));
      if constexpr (kPlanes == 3) {
        const Ints third = _mm512_madd_epi16(pairs[2], _mm512_set1_epi16(1));
        words = _mm512_add_epi32(words, _mm512_slli_epi32(third, 16));
      }
      sum = _mm512_add_epi32(sum, words);
    }
    OCTET_INLINE Ints total() const { return sum; }
  };
};

}  // namespace

extern const IntegerDots kDigitDotsAvx512 = digits::digit_dots<Avx512>();

}  // namespace octet::cpu
