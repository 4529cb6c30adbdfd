// SPDX-License-Identifier: Apache-2.0
// The kernels on digits for x86-64 with AVX-512 and VNNI: vpdpbusd multiplies 2 w + 12 by four digits and adds all four in
// int32, so there are no pairs to widen. The planes' sums meet at the end of the block.
#include "cpu/avx512_lanes.h"
#include "cpu/block_sums.h"
#include "cpu/digit_dot.h"

namespace octet::cpu {
namespace {

struct Avx512Vnni : avx512::Lanes {
  template <int kPlanes>
  using Sums = digits::PlaneSums<Avx512Vnni, kPlanes>;

  template <int kPlanes>
  static OCTET_INLINE void add_eights(Ints (&planes)[kPlanes], const Weights& w, const Digits& x,
                                      int plane) {
    planes[plane] = _mm512_dpbusd_epi32(planes[plane], w.low, x.low);
    planes[plane] = _mm512_dpbusd_epi32(planes[plane], w.high, x.high);
  }
};

}  // namespace

extern const IntegerDots kDigitDotsAvx512Vnni = digits::digit_dots<Avx512Vnni>();

}  // namespace octet::cpu
