// SPDX-License-Identifier: Apache-2.0
// The literals of PTX, as bits and back.
//
//   12  017  0x1F  0b101  12U     kInteger: 64 bits, two's complement where a minus stands before it
//   0f3F800000                    kF32: the 32 bits as they are
//   0d3FF0000000000000  1.5e-3    kF64: the 64 bits as they are; a decimal fraction is rounded to nearest
//
// Errors: a digit that its base does not have, more than 64 bits, a fraction beyond binary64, a minus before 0f or 0d.
// Source: PTX ISA 4.5.1, 4.5.2.
#pragma once

#include <cstdint>
#include <string>

#include "ptxsim/text/token.h"

namespace octet::ptxsim::text {

struct Number {
  enum class Kind { kInteger, kF32, kF64 };
  Place place;
  Kind kind = Kind::kInteger;
  uint64_t bits = 0;
  bool is_negative = false;  // kInteger: a minus stood before it; bits have it already
  bool is_unsigned = false;  // kInteger: a U stood behind it
  friend bool operator==(const Number&, const Number&) = default;
};

// The token of a number, and whether a minus stood before it.
Result<Number> read_number(const Token& token, bool is_negative);

// A literal that read_number reads as the same number.
std::string print_number(const Number& number);

}  // namespace octet::ptxsim::text
