// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/insn/numeric.h"

#include <algorithm>

namespace octet::ptxsim::insn {
namespace {

// An integer of a value that is not negative.
double round_integer(double value, Rounding rounding, bool is_negative) {
  const double below = std::floor(value), rest = value - below;
  switch (rounding) {
    case Rounding::kZero:
      return below;
    case Rounding::kDown:
      return is_negative && rest > 0 ? below + 1 : below;
    case Rounding::kUp:
      return !is_negative && rest > 0 ? below + 1 : below;
    case Rounding::kNearestAway:
      return rest >= 0.5 ? below + 1 : below;
    case Rounding::kNearest:
      break;
  }
  if (rest != 0.5) return rest > 0.5 ? below + 1 : below;
  return std::fmod(below, 2) == 0 ? below : below + 1;
}

}  // namespace

double decode_float(const Format& format, uint32_t code) {
  const bool is_negative = (code & format.sign) != 0;
  const uint32_t magnitude = format.sign != 0 ? code & (format.sign - 1) : code;
  if (magnitude > format.largest) {
    const bool is_infinite = format.has_infinity && magnitude == format.largest + 1;
    if (!is_infinite) return std::numeric_limits<double>::quiet_NaN();
    return is_negative ? -std::numeric_limits<double>::infinity()
                       : std::numeric_limits<double>::infinity();
  }
  const int exponent = int(magnitude >> format.mantissa);
  const auto fraction = double(magnitude & ((1u << format.mantissa) - 1));
  const double one = double(1u << format.mantissa);
  const bool is_subnormal = exponent == 0 && format.sign != 0;  // ue8m0 has none
  const double value = is_subnormal ? std::ldexp(fraction / one, 1 - format.bias)
                                    : std::ldexp(1 + fraction / one, exponent - format.bias);
  return is_negative ? -value : value;
}

uint32_t encode_float(const Format& format, double value, Rounding rounding, bool saturates) {
  const bool is_negative = std::signbit(value);
  const uint32_t sign = is_negative ? format.sign : 0;
  if (std::isnan(value)) return format.nan != 0 ? format.nan : format.largest;
  const double magnitude = std::fabs(value);
  const uint32_t beyond = saturates || (!format.has_infinity && format.nan == 0) ? format.largest
                          : format.has_infinity ? format.largest + 1
                                                : format.nan;
  if (std::isinf(magnitude)) return sign | beyond;
  if (magnitude == 0) return sign;
  const int least =
      1 - format.bias;  // exponent of the smallest normal number, and of what is below it
  const int exponent =
      format.sign != 0 ? std::max(std::ilogb(magnitude), least) : std::ilogb(magnitude);
  const double rounded =
      round_integer(std::ldexp(magnitude, format.mantissa - exponent), rounding, is_negative);
  if (format.sign == 0) {  // ue8m0: a power of two, 2^-127 at least
    const int code = exponent + (rounded >= 2 ? 1 : 0) + format.bias;
    return uint32_t(std::clamp(code, 0, int(format.largest)));
  }
  // The code of a normal number is its rounded mantissa behind its exponent; a carry goes on into it.
  const uint32_t code = uint32_t(rounded) + (uint32_t(exponent - least) << format.mantissa);
  if (code <= format.largest) return sign | code;
  // Towards zero the largest finite number is what is next.
  const bool to_largest = rounding == Rounding::kZero ||
                          (rounding == Rounding::kDown && !is_negative) ||
                          (rounding == Rounding::kUp && is_negative);
  return sign | (to_largest ? format.largest : beyond);
}

}  // namespace octet::ptxsim::insn
