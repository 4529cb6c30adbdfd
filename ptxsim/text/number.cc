// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/text/number.h"

#include <bit>
#include <charconv>
#include <fmt/format.h>

namespace octet::ptxsim::text {

namespace {

Status refusal(const Token& token, std::string_view want) {
  return found_want(token.place, token.shown(), want);
}

// `digits` of `token`, all of them, in `base`.
Result<uint64_t> read_digits(const Token& token, std::string_view digits, int base) {
  uint64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, base);
  if (error == std::errc::result_out_of_range) return refusal(token, "an integer of 64 bits");
  if (error != std::errc() || stop != end) {
    return refusal(token, fmt::format("an integer of digits in base {}", base));
  }
  return value;
}

// 0f and 0d: exactly the digits of the bits.
Result<Number> read_float_bits(const Token& token, size_t num_digits, Number number) {
  const std::string_view digits = token.text.substr(2);
  if (digits.size() != num_digits) {
    return refusal(
        token, fmt::format("{} hexadecimal digits after {}", num_digits, token.text.substr(0, 2)));
  }
  OCTET_ASSIGN_OR_RETURN(number.bits, read_digits(token, digits, 16));
  return number;
}

Result<Number> read_decimal_fraction(const Token& token, Number number) {
  double value = 0;
  const char* end = token.text.data() + token.text.size();
  const auto [stop, error] = std::from_chars(token.text.data(), end, value);
  if (error == std::errc::result_out_of_range) {
    return refusal(token, "a fraction that binary64 holds");
  }
  if (error != std::errc() || stop != end) return refusal(token, "a number");
  number.kind = Number::Kind::kF64;
  number.bits = std::bit_cast<uint64_t>(number.is_negative ? -value : value);
  number.is_negative = false;
  return number;
}

Result<Number> read_integer(const Token& token, Number number) {
  std::string_view digits = token.text;
  if (digits.size() > 1 && digits.back() == 'U') {
    number.is_unsigned = true;
    digits.remove_suffix(1);
  }
  int base = 10;
  if (digits.size() > 1 && digits[0] == '0') {
    const bool is_hex = digits[1] == 'x' || digits[1] == 'X';
    const bool is_binary = digits[1] == 'b' || digits[1] == 'B';
    base = is_hex ? 16 : is_binary ? 2 : 8;
    digits.remove_prefix(is_hex || is_binary ? 2 : 1);
  }
  OCTET_ASSIGN_OR_RETURN(number.bits, read_digits(token, digits, base));
  if (number.is_negative) number.bits = -number.bits;
  return number;
}

}  // namespace

Result<Number> read_number(const Token& token, bool is_negative) {
  if (token.kind != Token::Kind::kNumber) return refusal(token, "a number");
  const std::string_view text = token.text;
  Number number;
  number.place = token.place;
  number.is_negative = is_negative;
  const char prefix = text.size() > 1 && text[0] == '0' ? text[1] : '\0';
  const bool is_f32 = prefix == 'f' || prefix == 'F';
  if (is_f32 || prefix == 'd' || prefix == 'D') {
    if (is_negative) return refusal(token, "the sign in the bits, no minus before them");
    number.kind = is_f32 ? Number::Kind::kF32 : Number::Kind::kF64;
    return read_float_bits(token, is_f32 ? 8 : 16, number);
  }
  const bool is_hex = prefix == 'x' || prefix == 'X';
  if (!is_hex && text.find_first_of(".eE") != std::string_view::npos) {
    return read_decimal_fraction(token, number);
  }
  return read_integer(token, number);
}

std::string print_number(const Number& number) {
  if (number.kind == Number::Kind::kF32) return fmt::format("0f{:08X}", number.bits);
  if (number.kind == Number::Kind::kF64) return fmt::format("0d{:016X}", number.bits);
  return fmt::format("{}{}{}", number.is_negative ? "-" : "",
                     number.is_negative ? -number.bits : number.bits,
                     number.is_unsigned ? "U" : "");
}

}  // namespace octet::ptxsim::text
