// SPDX-License-Identifier: Apache-2.0
// What the kernels on digits of both NEON sets share (digit_dot.h says what each part is). Weights are looked up with their
// signs, so the record's offset is not needed. Empty for other targets.
#pragma once

#if defined(__aarch64__)

#include <arm_neon.h>
#include <cstdint>

#include "cpu/integer_dot.h"
#include "cpu/unroll.h"

namespace octet::cpu::neon {
namespace {

struct Lanes {
  using Ints = int32x4_t;
  using Floats = float32x4_t;
  static constexpr int kLanes = 4;
  static constexpr int kVectors = 4;
  static constexpr int kPlanesTogether = 2;
  // 32 registers: 4 for each row's outputs, its planes' sums of each vector, 2 of weights for each vector, digits, table.
  template <int kPlanes>
  static constexpr int register_rows() {
    return kPlanes == 2 ? 4 : 3;
  }
  template <int kPlanes>
  static constexpr int vectors_together(int rows) {
    return rows == 1 ? 4 : rows == 2 ? 2 : 1;
  }

  // 2 w of the codes.
  static OCTET_INLINE int8x16_t doubled(uint8x16_t codes) {
    static const int8_t kDoubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    return vqtbl1q_s8(vld1q_s8(kDoubled), codes);
  }
  struct Halves {
    int8x16_t low, high;  // elements 0 ... 3 of each lane, elements 4 ... 7
  };
  static OCTET_INLINE Halves decode_halves(const uint8_t* line) {
    const uint8x16_t v = vld1q_u8(line);
    return {doubled(vandq_u8(v, vdupq_n_u8(15))), doubled(vshrq_n_u8(v, 4))};
  }

  // Planes 0 and 1: they lie side by side in a record. The third: alone.
  using Digits = int8x16_t;
  static OCTET_INLINE Digits load_digits(const uint8_t* at, int plane) {
    if (plane == 0) return vreinterpretq_s8_u8(vld1q_u8(at));
    return vcombine_s8(vreinterpret_s8_u8(vld1_u8(at)), vdup_n_s8(0));
  }

  static OCTET_INLINE Ints first(const uint8_t* /*offset*/) { return no_ints(); }
  static OCTET_INLINE Ints no_ints() { return vdupq_n_s32(0); }
  static OCTET_INLINE Ints add(Ints a, Ints b) { return vaddq_s32(a, b); }
  template <int kBits>
  static OCTET_INLINE Ints shifted(Ints v) {
    return vshlq_n_s32(v, kBits);
  }

  template <WeightFormat kFormat>
  static OCTET_INLINE Floats scales(const uint8_t* codes) {
    uint32_t four;
    __builtin_memcpy(&four, codes, sizeof four);
    const uint8x8_t bytes = vreinterpret_u8_u32(vdup_n_u32(four));
    const uint32x4_t code = vmovl_u16(vget_low_u16(vmovl_u8(bytes)));
    return vreinterpretq_f32_u32(vshlq_n_u32(code, digits::kScaleShift<kFormat>));
  }
  template <WeightFormat kFormat>
  static OCTET_INLINE bool is_ordinary(const uint8_t* codes) {
    const uint8x16_t least = vdupq_n_u8(digits::kOrdinaryFrom<kFormat>);
    uint8x16_t largest = vdupq_n_u8(0);
    OCTET_UNROLL
    for (int i = 0; i < 4; ++i)
      largest = vmaxq_u8(largest, vsubq_u8(vld1q_u8(codes + 16 * i), least));
    return vmaxvq_u8(largest) <= digits::kOrdinaryTo<kFormat> - digits::kOrdinaryFrom<kFormat>;
  }

  static OCTET_INLINE Floats zero() { return vdupq_n_f32(0); }
  static OCTET_INLINE Floats broadcast(const uint8_t* at) {
    return vdupq_n_f32(digits::load_f32(at));
  }
  static OCTET_INLINE Floats to_floats(Ints v) { return vcvtq_f32_s32(v); }
  static OCTET_INLINE Floats multiply(Floats a, Floats b) { return vmulq_f32(a, b); }
  static OCTET_INLINE Floats fma(Floats a, Floats b, Floats c) { return vfmaq_f32(c, a, b); }
  static OCTET_INLINE Floats load(const float* at) { return vld1q_f32(at); }
  static OCTET_INLINE void store(float* at, Floats v) { vst1q_f32(at, v); }
};

}  // namespace
}  // namespace octet::cpu::neon

#endif
