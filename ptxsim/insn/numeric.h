// SPDX-License-Identifier: Apache-2.0
// Number formats and their roundings: narrow floats as doubles and back, once rounded.
//
//   format    sign exponent mantissa   largest   infinity  NaN
//   f16        1      5       10        65504     yes       yes
//   bf16       1      8        7      3.39e38     yes       yes
//   e4m3       1      4        3          448     no        0x7F
//   e5m2       1      5        2        57344     yes       yes
//   e2m3       1      2        3          7.5     no        no
//   e3m2       1      3        2           28     no        no
//   e2m1       1      2        1            6     no        no
//   ue8m0      0      8        0         2^127    no        0xFF
// Source: PTX ISA 5.2.3 (alternate formats), 9.7.9.21 (cvt); OCP MX 1.0 for the four to eight bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace octet::ptxsim::insn {

struct Format {
  int mantissa = 0;  // bits
  int bias = 0;
  uint32_t largest = 0;  // code of the largest finite magnitude
  bool has_infinity = false;
  uint32_t nan = 0;  // code of NaN without a sign, 0: has none
  uint32_t sign = 0;
};
constexpr Format kF16 = {10, 15, 0x7BFF, true, 0x7FFF, 0x8000};
constexpr Format kBf16 = {7, 127, 0x7F7F, true, 0x7FFF, 0x8000};
constexpr Format kE4m3 = {3, 7, 0x7E, false, 0x7F, 0x80};
constexpr Format kE5m2 = {2, 15, 0x7B, true, 0x7F, 0x80};
constexpr Format kE2m3 = {3, 1, 0x1F, false, 0, 0x20};
constexpr Format kE3m2 = {2, 3, 0x1F, false, 0, 0x20};
constexpr Format kE2m1 = {1, 1, 0x7, false, 0, 0x8};
constexpr Format kUe8m0 = {0, 127, 0xFE, false, 0xFF, 0};

enum class Rounding { kNearest, kZero, kDown, kUp, kNearestAway };

double decode_float(const Format& format, uint32_t code);
// `saturates`: what is too large becomes the largest finite value. NaN where there is none: the largest, or 0 for the sign bits alone
// that cvt wants (PTX ISA 9.7.9.21: NaN gives positive MAX_NORM in e2m1, e2m3, e3m2).
uint32_t encode_float(const Format& format, double value, Rounding rounding, bool saturates);

// f32. A NaN that arithmetic makes is 0x7FFFFFFF (PTX ISA 9.7.3: canonical).
constexpr uint32_t kNan32 = 0x7FFFFFFF;
inline float f32(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint32_t bits32(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return (bits & 0x7FFFFFFF) > 0x7F800000 ? kNan32 : bits;
}
inline double f64(uint64_t bits) { return std::bit_cast<double>(bits); }
inline uint64_t bits64(double value) { return std::bit_cast<uint64_t>(value); }
// .ftz: subnormals are zeros of their sign.
inline uint32_t flush(uint32_t bits) { return (bits & 0x7F800000) == 0 ? bits & 0x80000000 : bits; }
// .ftz of a result, which is `exact` before its rounding (in binary64, or rounded to odd there): 0 where it is below 2^-126 in 24 bits, even
// where a subnormal number's fewer bits would have taken it up to 2^-126. No text says which of the two; seen on an H200.
inline uint32_t flush_result(uint32_t bits, double exact) {
  const bool is_edge = (bits & 0x7FFFFFFF) == 0x00800000;
  const bool is_below = std::fabs(float(exact * 0x1p64)) < 0x1p-62f;
  return is_edge && is_below ? bits & 0x80000000 : flush(bits);
}
// A NaN of binary64 as arithmetic hands it on: quiet. An H200 takes the last operand's, of div the first's, of fma the second's first.
constexpr uint64_t kQuiet64 = 0x0008000000000000;
inline bool is_nan64(uint64_t bits) { return (bits & 0x7FFFFFFFFFFFFFFF) > 0x7FF0000000000000; }
// .sat: to [0, 1], NaN to 0.
inline float saturate(float value) { return value > 0 ? (value < 1 ? value : 1.0f) : 0.0f; }

inline float f32_of_bf16(uint32_t code) { return f32(code << 16); }
inline float f32_of_f16(uint32_t code) { return float(decode_float(kF16, code & 0xFFFF)); }
// Nearest, ties to even.
inline uint32_t bf16_of_f32(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return 0x7FFF;
  return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

// a * b + c, exact until a rounding to odd in binary64: rounded once more to any format of at most 51 bits it is rounded right.
inline double fma_to_odd(double a, double b, double c) {
  const double p = a * b;  // exact for factors of at most 26 bits
  const double sum = p + c;
  const double bb = sum - p;
  const double error = (p - (sum - bb)) + (c - bb);
  if (error == 0 || !std::isfinite(sum)) return sum;
  auto bits = std::bit_cast<uint64_t>(sum);
  if ((bits & 1) == 0) bits += (error > 0) == (sum > 0) ? 1 : uint64_t(-1);
  return std::bit_cast<double>(bits);
}

}  // namespace octet::ptxsim::insn
