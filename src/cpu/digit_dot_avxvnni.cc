// SPDX-License-Identifier: Apache-2.0
// The kernels on digits for x86-64 with AVX-VNNI, the 256-bit form that processors without AVX-512 have: the steps are those
// of digit_dot_avx512vnni.cc, half as wide. Three rows and more go through the words of word_dot_avx2.cc, as with AVX2.
#include "cpu/avx2_lanes.h"
#include "cpu/digit_dot.h"

namespace octet::cpu {
namespace {

struct AvxVnni : avx2::Lanes {
  template <int kPlanes>
  struct Sums {
    Ints planes[kPlanes];
    OCTET_INLINE void start(const uint8_t* offset) {
      planes[0] = broadcast_word(offset);
      OCTET_UNROLL
      for (int plane = 1; plane < kPlanes; ++plane) planes[plane] = _mm256_setzero_si256();
    }
    OCTET_INLINE void add(const Weights& w, const Digits& x, int plane, int /*line*/) {
      planes[plane] = _mm256_dpbusd_avx_epi32(planes[plane], w.low, x.low);
      planes[plane] = _mm256_dpbusd_avx_epi32(planes[plane], w.high, x.high);
    }
    OCTET_INLINE Ints total() const {
      Ints sum = _mm256_add_epi32(planes[0], _mm256_slli_epi32(planes[1], 8));
      if constexpr (kPlanes == 3) sum = _mm256_add_epi32(sum, _mm256_slli_epi32(planes[2], 16));
      return sum;
    }
  };
};

}  // namespace

extern const IntegerDots kDigitDotsAvxVnni = digits::digit_dots<AvxVnni>();

}  // namespace octet::cpu
