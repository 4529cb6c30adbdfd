// SPDX-License-Identifier: Apache-2.0
// The kernels on digits for x86-64 with AVX-VNNI, the 256-bit form that processors without AVX-512 have: the steps are those
// of digit_dot_avx512vnni.cc, half as wide. Three rows and more go through the words of word_dot_avx2.cc, as with AVX2.
#include "cpu/avx2_lanes.h"
#include "cpu/block_sums.h"
#include "cpu/digit_dot.h"

namespace octet::cpu {
namespace {

struct AvxVnni : avx2::Lanes {
  template <int kPlanes>
  using Sums = digits::PlaneSums<AvxVnni, kPlanes>;

  template <int kPlanes>
  static OCTET_INLINE void add_eights(Ints (&planes)[kPlanes], const Weights& w, const Digits& x,
                                      int plane) {
    planes[plane] = _mm256_dpbusd_avx_epi32(planes[plane], w.low, x.low);
    planes[plane] = _mm256_dpbusd_avx_epi32(planes[plane], w.high, x.high);
  }
};

}  // namespace

extern constinit const IntegerDots kDigitDotsAvxVnni = digits::digit_dots<AvxVnni>();

}  // namespace octet::cpu
