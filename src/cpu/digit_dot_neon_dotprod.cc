// SPDX-License-Identifier: Apache-2.0
// The kernels on digits for 64-bit ARM with dotprod: sdot multiplies 2 w by four digits and adds all four in int32. The
// digits of a line are one register, from which sdot takes four by number: no broadcasts.
#include "cpu/digit_dot.h"
#include "cpu/neon_lanes.h"

namespace octet::cpu {
namespace {

struct Dotprod : neon::Lanes {
  using Weights = Halves;
  static OCTET_INLINE Weights decode(const uint8_t* line) { return decode_halves(line); }

  template <int kPlanes>
  struct Sums {
    Ints planes[kPlanes];
    OCTET_INLINE void start(const uint8_t* /*offset*/) {
      OCTET_UNROLL
      for (int plane = 0; plane < kPlanes; ++plane) planes[plane] = vdupq_n_s32(0);
    }
    OCTET_INLINE void add(const Weights& w, Digits x, int plane, int /*line*/) {
      add_eight<0>(planes[plane], w, x);
      if (plane == 0) add_eight<2>(planes[1], w, x);
    }
    template <int kFirst>
    static OCTET_INLINE void add_eight(Ints& sum, const Weights& w, Digits x) {
      sum = vdotq_laneq_s32(sum, w.low, x, kFirst);
      sum = vdotq_laneq_s32(sum, w.high, x, kFirst + 1);
    }
    OCTET_INLINE Ints total() const {
      Ints sum = vaddq_s32(planes[0], vshlq_n_s32(planes[1], 8));
      if constexpr (kPlanes == 3) sum = vaddq_s32(sum, vshlq_n_s32(planes[2], 16));
      return sum;
    }
  };
};

}  // namespace

extern const IntegerDots kDigitDotsNeonDotprod = digits::digit_dots<Dotprod>();

}  // namespace octet::cpu
