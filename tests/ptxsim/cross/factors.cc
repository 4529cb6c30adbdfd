// SPDX-License-Identifier: Apache-2.0
#include "factors.h"

#include "values.h"

namespace octet::cross {
namespace {

struct Form {
  int mantissa, exponent_bits, bias;
  bool has_infinity;
};
Form form_of(std::string_view format) {
  if (format == "f16") return {10, 5, 15, true};
  if (format == "bf16") return {7, 8, 127, true};
  if (format == "e4m3") return {3, 4, 7, false};
  return {2, 5, 15, true};
}

// -2 ... 2 in halves.
uint32_t small_code(const Form& form, uint64_t random) {
  const auto halves = static_cast<int>(random % 9) - 4;
  if (halves == 0) return 0;
  const uint32_t magnitude = static_cast<uint32_t>(halves < 0 ? -halves : halves);
  const int exponent = magnitude >= 4 ? 1 : magnitude >= 2 ? 0 : -1;
  const uint32_t fraction = magnitude == 3 ? 1U << (form.mantissa - 1) : 0;
  const uint32_t sign = halves < 0 ? 1U << (form.mantissa + form.exponent_bits) : 0;
  return sign | static_cast<uint32_t>(exponent + form.bias) << form.mantissa | fraction;
}

uint32_t code_of(const Form& form, Draw draw, uint64_t random) {
  const uint32_t sign = static_cast<uint32_t>(random >> 63) << (form.mantissa + form.exponent_bits);
  const uint32_t fraction = static_cast<uint32_t>(random >> 32) & ((1U << form.mantissa) - 1);
  const auto most = static_cast<uint32_t>((1 << form.exponent_bits) - 1);
  const auto bias = static_cast<uint32_t>(form.bias);
  uint32_t exponent = static_cast<uint32_t>(random) % (most + 1);
  switch (draw) {
    case Draw::kExact:
      return small_code(form, random);
    case Draw::kNear:
      exponent = bias - 3 + static_cast<uint32_t>(random) % 6;
      break;
    case Draw::kSubnormal:
      exponent = static_cast<uint32_t>(random) % 8 == 0 ? 1 : 0;
      break;
    case Draw::kLarge:
      exponent = most - 1 - static_cast<uint32_t>(random) % 2;
      break;
    case Draw::kSpecial:
      if (random % 64 < 62)
        exponent = bias - 2 + static_cast<uint32_t>(random >> 8) % 4;
      else
        exponent = most;
      break;
    case Draw::kZeros:
      return sign;
    case Draw::kAny:
      break;
  }
  uint32_t code = sign | exponent << form.mantissa | fraction;
  if (draw == Draw::kSpecial) return code;
  // No NaN, no Inf.
  if (form.has_infinity && exponent == most) code ^= 1U << form.mantissa;
  const uint32_t all = (1U << (form.mantissa + form.exponent_bits)) - 1;
  if (!form.has_infinity && (code & all) == all) code ^= 1;
  return code;
}

uint32_t accumulator_of(const Form& form, Draw draw, uint64_t random) {
  const uint32_t sign = static_cast<uint32_t>(random >> 63) << 31,
                 fraction = static_cast<uint32_t>(random >> 24) & 0x7FFFFF;
  const auto spread = static_cast<int>(random % 24);
  const uint32_t any = static_cast<uint32_t>(random % 254) << 23;
  switch (draw) {
    case Draw::kZeros:
      return sign;
    case Draw::kExact:
      return small_code({23, 8, 127, true}, random);
    case Draw::kNear:
      return sign | static_cast<uint32_t>(127 - 8 + spread / 2) << 23 | fraction;
    case Draw::kAny:
      return random % 3 == 0 ? sign | any | fraction
                             : sign | static_cast<uint32_t>(127 + spread - 12) << 23 | fraction;
    case Draw::kSpecial:
      return random % 97 == 0 ? sign | 0x7F800000 | (random % 2 == 0 ? 0 : fraction)
                              : sign | 0x3F800000 | fraction;
    case Draw::kSubnormal:
      return sign |
             (form.exponent_bits == 8
                  ? fraction
                  : static_cast<uint32_t>(127 - 2 * form.bias - 4 + spread / 3) << 23 | fraction);
    case Draw::kLarge:
      return sign |
             (form.exponent_bits == 8
                  ? static_cast<uint32_t>(250 + random % 5) << 23
                  : static_cast<uint32_t>(127 + 2 * form.bias - spread / 3) << 23) |
             fraction;
  }
  return 0;
}

}  // namespace

Bytes codes_of(std::string_view format, Draw draw, size_t count, uint64_t seed) {
  const Form form = form_of(format);
  const bool is_wide = form.mantissa + form.exponent_bits == 15;
  Bytes out;
  out.reserve(count * 2);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t code = code_of(form, draw, hash(i, seed));
    out.push_back(static_cast<uint8_t>(code));
    if (is_wide) out.push_back(static_cast<uint8_t>(code >> 8));
  }
  return out;
}

Bytes accumulators_of(std::string_view format, Draw draw, size_t count, uint64_t seed) {
  const Form form = form_of(format);
  Bytes out;
  out.reserve(count * 4);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t code = accumulator_of(form, draw, hash(i, seed));
    for (int byte = 0; byte < 4; ++byte) out.push_back(static_cast<uint8_t>(code >> (8 * byte)));
  }
  return out;
}

}  // namespace octet::cross
