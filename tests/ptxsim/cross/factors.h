// SPDX-License-Identifier: Apache-2.0
// Codes of a matrix product's factors and its accumulators.
#pragma once

#include <string_view>

#include "case.h"

namespace octet::cross {

enum class Draw {
  kExact,  // small integers and halves: their sums are exact in any order, so a layout that is wrong shows, and nothing else
  kNear,   // any mantissa and sign, exponents within a few of each other
  kAny,    // every code that is a number
  kSpecial,    // every code: NaN and Inf, too
  kSubnormal,  // subnormal numbers, zeros and the smallest normal ones
  kLarge,      // sums beyond binary32 or near it
  kZeros,      // zeros of both signs, so are the accumulators
};
constexpr std::string_view kDrawNames[] = {"exact sums", "near",  "any numbers", "NaN and Inf",
                                           "subnormal",  "large", "zeros"};

// Elements of a format ("f16", "bf16", "e4m3", "e5m2"), one after the other.
Bytes codes_of(std::string_view format, Draw draw, size_t count, uint64_t seed);
// f32 to add to sums of such factors.
Bytes accumulators_of(std::string_view format, Draw draw, size_t count, uint64_t seed);

}  // namespace octet::cross
