// SPDX-License-Identifier: Apache-2.0
// The kernels on digits for 64-bit ARM with dotprod: sdot multiplies 2 w by four digits and adds all four in int32.
#include "cpu/digit_dot.h"
#include "cpu/neon_lanes.h"

namespace octet::cpu {
namespace {

struct Dotprod : neon::Lanes {
  static constexpr int kPlanesTogether = 1;
  template <int kPlanes>
  static constexpr int register_rows() {
    return kPlanes == 2 ? 3 : 2;
  }
  template <int kPlanes>
  static constexpr int vectors_together(int rows) {
    return rows == 1 ? 4 : 2;
  }

  using Weights = Halves;
  static OCTET_INLINE Weights decode(const uint8_t* line) { return decode_halves(line); }

  struct Digits {
    int8x16_t low, high;
  };
  static OCTET_INLINE Digits load_digits(const uint8_t* at, int /*plane*/) {
    int32_t low, high;
    std::memcpy(&low, at, sizeof low);
    std::memcpy(&high, at + 4, sizeof high);
    return {vreinterpretq_s8_s32(vdupq_n_s32(low)), vreinterpretq_s8_s32(vdupq_n_s32(high))};
  }

  template <int kPlanes>
  struct Sums {
    Ints planes[kPlanes];
    OCTET_INLINE void start(const uint8_t* /*offset*/) {
      OCTET_UNROLL
      for (int plane = 0; plane < kPlanes; ++plane) planes[plane] = vdupq_n_s32(0);
    }
    OCTET_INLINE void add(const Weights& w, const Digits& x, int plane, int /*line*/) {
      planes[plane] = vdotq_s32(vdotq_s32(planes[plane], w.low, x.low), w.high, x.high);
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
