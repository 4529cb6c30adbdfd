// SPDX-License-Identifier: Apache-2.0
// The kernels on digits for 64-bit ARM with i8mm: smmla multiplies 2 lanes x 8 elements by 8 elements x 2 planes, so half
// the multiplications of dotprod.
//
//   low and high nibbles of a line, interleaved by fours    lane, elements 0 ... 7, twice
//   a row's eights of planes 0 and 1                        lie side by side in its record
//   smmla                                                   [lane 0: plane 0, plane 1][lane 1: plane 0, plane 1]
#include "cpu/digit_dot.h"
#include "cpu/neon_lanes.h"

namespace octet::cpu {
namespace {

struct I8mm : neon::Lanes {
  struct Weights {
    int8x16_t lanes[2];  // 0 and 1, 2 and 3
  };
  static OCTET_INLINE Weights decode(const uint8_t* line) {
    const Halves halves = decode_halves(line);
    const int32x4_t low = vreinterpretq_s32_s8(halves.low);
    const int32x4_t high = vreinterpretq_s32_s8(halves.high);
    return {
        {vreinterpretq_s8_s32(vzip1q_s32(low, high)), vreinterpretq_s8_s32(vzip2q_s32(low, high))}};
  }

  template <int kPlanes>
  struct Sums {
    Ints lanes[kPlanes == 3 ? 2 : 1][2];  // of planes 0 and 1, of the third
    OCTET_INLINE void start(const uint8_t* /*offset*/) {
      OCTET_UNROLL
      for (auto& pair : lanes) pair[0] = pair[1] = no_ints();
    }
    OCTET_INLINE void add(const Weights& w, Digits x, int plane, int /*line*/) {
      Ints(&to)[2] = lanes[plane / 2];
      to[0] = vmmlaq_s32(to[0], w.lanes[0], x);
      to[1] = vmmlaq_s32(to[1], w.lanes[1], x);
    }
    OCTET_INLINE Ints total() const {
      Ints sum = Lanes::add(vuzp1q_s32(lanes[0][0], lanes[0][1]),
                            shifted<8>(vuzp2q_s32(lanes[0][0], lanes[0][1])));
      if constexpr (kPlanes == 3)
        sum = Lanes::add(sum, shifted<16>(vuzp1q_s32(lanes[1][0], lanes[1][1])));
      return sum;
    }
  };
};

}  // namespace

extern constinit const IntegerDots kDigitDotsNeonI8mm = digits::digit_dots<I8mm>();

}  // namespace octet::cpu
