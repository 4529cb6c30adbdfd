// SPDX-License-Identifier: Apache-2.0
// The kernels on digits for 64-bit ARM with dotprod: sdot multiplies 2 w by four digits and adds all four in int32. The
// digits of a line are one register, from which sdot takes four by number: no broadcasts.
#include "cpu/block_sums.h"
#include "cpu/digit_dot.h"
#include "cpu/neon_lanes.h"

namespace octet::cpu {
namespace {

struct Dotprod : neon::Lanes {
  template <int kPlanes>
  using Sums = digits::PlaneSums<Dotprod, kPlanes>;

  using Weights = Halves;
  static OCTET_INLINE Weights decode(const uint8_t* line) { return decode_halves(line); }

  template <int kPlanes>
  static OCTET_INLINE void add_eights(Ints (&planes)[kPlanes], const Weights& w, Digits x,
                                      int plane) {
    add_eight<0>(planes[plane], w, x);
    if (plane == 0) add_eight<2>(planes[1], w, x);
  }
  template <int kFirst>
  static OCTET_INLINE void add_eight(Ints& sum, const Weights& w, Digits x) {
    sum = vdotq_laneq_s32(sum, w.low, x, kFirst);
    sum = vdotq_laneq_s32(sum, w.high, x, kFirst + 1);
  }
};

}  // namespace

extern constinit const IntegerDots kDigitDotsNeonDotprod = digits::digit_dots<Dotprod>();

}  // namespace octet::cpu
