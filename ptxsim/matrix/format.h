// SPDX-License-Identifier: Apache-2.0
// Number formats of matrix elements: what a code is, exactly. formats.inc has which there are.
//
// Every value of every format is a double, so a double is exact here; so is the product of two of them up to f16 and bf16.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace octet::ptxsim::matrix {

enum class Format {
#define OCTET_PTX_FORMAT(constant, name, bits, fraction, bias, largest) k##constant,
#include "ptxsim/matrix/formats.inc"
#undef OCTET_PTX_FORMAT
};
std::string_view format_name(Format format);  // "e4m3"
int format_bits(Format format);
std::optional<Format> find_format(std::string_view name);

// Bits above the format's are ignored.
double value_of(Format format, uint32_t code);

// 2^exponent is the weight of the digit before the point: of a subnormal number and of zero that of the smallest normal one,
// since a multiplier that takes subnormals need not shift them first. What the truncating sum (dot.h) aligns by.
int exponent_of(Format format, uint32_t code);

// Of integers in units of the smallest number that hold every finite value: e2m1 4 (0.5 ... 6), e4m3 18, bf16 261.
int span_bits(Format format);

}  // namespace octet::ptxsim::matrix
