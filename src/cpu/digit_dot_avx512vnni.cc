// SPDX-License-Identifier: Apache-2.0
// The kernels on digits for x86-64 with AVX-512 and VNNI: vpdpbusd multiplies 2 w + 12 by four digits and adds all four in
// int32, so there are no pairs to widen. The planes' sums meet at the end of the block.
#include "cpu/avx512_lanes.h"
#include "cpu/digit_dot.h"

namespace octet::cpu {
namespace {

struct Avx512Vnni : avx512::Lanes {
  template <int kPlanes>
  static constexpr int register_rows() {
    return 4;
  }

  template <int kPlanes>
  struct Sums {
    Ints planes[kPlanes];
    OCTET_INLINE void start(const uint8_t* offset) {
      planes[0] = broadcast_word(offset);
      OCTET_UNROLL
      for (int plane = 1; plane < kPlanes; ++plane) planes[plane] = _mm512_setzero_si512();
    }
    OCTET_INLINE void add(const Weights& w, const Digits& x, int plane, int /*line*/) {
      planes[plane] = _mm512_dpbusd_epi32(planes[plane], w.low, x.low);
      planes[plane] = _mm512_dpbusd_epi32(planes[plane], w.high, x.high);
    }
    OCTET_INLINE Ints total() const {
      Ints sum = _mm512_add_epi32(planes[0], _mm512_slli_epi32(planes[1], 8));
      if constexpr (kPlanes == 3) sum = _mm512_add_epi32(sum, _mm512_slli_epi32(planes[2], 16));
      return sum;
    }
  };
};

}  // namespace

extern const IntegerDots kDigitDotsAvx512Vnni = digits::digit_dots<Avx512Vnni>();

}  // namespace octet::cpu
