// SPDX-License-Identifier: Apache-2.0
// The kernels on digits for x86-64 with AVX-512 (F, BW, DQ, VL): a line of a tile is one vector, its 16 lanes the panel's.
// The steps are those of digit_dot_avx2.cc, twice as wide.
#include "cpu/avx512_lanes.h"
#include "cpu/block_sums.h"
#include "cpu/digit_dot.h"

namespace octet::cpu {
namespace {

struct Avx512 : avx512::Lanes {
  template <int kPlanes>
  using Sums = digits::PairSums<Avx512, kPlanes>;

  static OCTET_INLINE Ints four(const Weights& w, const Digits& x) {
    return add_words(_mm512_maddubs_epi16(w.low, x.low), _mm512_maddubs_epi16(w.high, x.high));
  }
  static OCTET_INLINE Ints add_words(Ints a, Ints b) { return _mm512_add_epi16(a, b); }
  static OCTET_INLINE Ints widened(Ints pairs, int16_t factor) {
    return _mm512_madd_epi16(pairs, _mm512_set1_epi16(factor));
  }
};

}  // namespace

extern constinit const IntegerDots kDigitDotsAvx512 = digits::digit_dots<Avx512>();

}  // namespace octet::cpu
