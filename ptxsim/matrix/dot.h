// SPDX-License-Identifier: Apache-2.0
// The arithmetic of a matrix instruction: one element of d = scale * sum(a[i] * b[i]) + c, in f32.
//
//   kExact       the sum of all terms as if in infinite precision, rounded once to nearest even; the default
//   kTruncated   every product and c cut to a multiple of 2^(e - fraction_bits), toward zero, where 2^e is the largest term's
//                weight; these summed exactly; the sum cut to result_bits bits, toward zero
//
// No PTX ISA says how the sum is made ("accumulation order, rounding and handling of subnormal inputs are unspecified"). kTruncated is
// the published model of the tensor core (Khattak and Mikaitis, arXiv 2512.07004), one group of terms an instruction: 16 products of f16
// and bf16, 32 of eight bits and fewer. Of Hopper it is the hardware: an H200 has its bits, element by element, in all that the cross-run
// asks of mma.sync and wgmma (docs/ptxsim.md). Not so for block scales and tcgen05: a scale shifts all products' exponents here, which is
// untested. A product's weight is the sum of its factors' (format.h), so it may be up to 4; that of c is its own.
// NaN where a term is NaN, for Inf * 0 and for Inf - Inf, always 0x7FFFFFFF; else Inf where a term is Inf. Zero is +0, with kExact unless
// all terms are -0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ptxsim/matrix/format.h"

namespace octet::ptxsim::matrix {

struct Arithmetic {
  enum class Sum { kExact, kTruncated };
  Sum sum = Sum::kExact;
  int fraction_bits = 25;  // kTruncated: f32's 23 and two more
  int result_bits = 24;    // kTruncated: that the sum is cut to
};
constexpr Arithmetic kExactSum = {};
// Of f16 and bf16 everywhere, and of 8-bit formats on Blackwell.
constexpr Arithmetic kTruncated25 = {Arithmetic::Sum::kTruncated, 25};
// Of wgmma's e4m3 and e5m2 on Hopper. (mma.sync of these is two products of f16 there: insn/mma.cc.)
constexpr Arithmetic kTruncated13 = {Arithmetic::Sum::kTruncated, 13, 14};

// Codes of a matrix, line by line, as numbers and as exponents: what dot takes a line of.
class Factors {
 public:
  // codes [lines, depth]
  Factors(Format format, std::span<const uint32_t> codes, int lines, int depth, bool is_negated);
  int lines() const { return lines_; }
  int depth() const { return depth_; }
  const double* values(int line) const { return &values_[int64_t{line} * depth_]; }
  const int16_t* exponents(int line) const { return &exponents_[int64_t{line} * depth_]; }
  int span_bits() const { return span_bits_; }  // from the format's smallest bit to its largest

 private:
  int lines_, depth_, span_bits_;
  std::vector<double> values_;
  std::vector<int16_t> exponents_;
};

// Lines a_line of a and b_line of b, of one depth; scale = 2^scale_exponent, or NaN with scale_is_nan.
struct Term {
  int a_line = 0, b_line = 0;
  int scale_exponent = 0;
  bool scale_is_nan = false;
  float c = 0;  // -0.0F: no c
};
float dot(const Factors& a, const Factors& b, const Term& term, Arithmetic arithmetic);

}  // namespace octet::ptxsim::matrix
