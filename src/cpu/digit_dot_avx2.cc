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
#include "cpu/block_sums.h"
#include "cpu/digit_dot.h"

namespace octet::cpu {
namespace {

struct Avx2 : avx2::Lanes {
  template <int kPlanes>
  using Sums = digits::PairSums<Avx2, kPlanes>;

  static OCTET_INLINE Ints four(const Weights& w, const Digits& x) {
    return add_words(_mm256_maddubs_epi16(w.low, x.low), _mm256_maddubs_epi16(w.high, x.high));
  }
  static OCTET_INLINE Ints add_words(Ints a, Ints b) { return _mm256_add_epi16(a, b); }
  static OCTET_INLINE Ints widened(Ints pairs, int16_t factor) {
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(factor));
  }
};

}  // namespace

extern constinit const IntegerDots kDigitDotsAvx2 = digits::digit_dots<Avx2>();

}  // namespace octet::cpu
