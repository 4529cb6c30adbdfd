// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/matrix/format.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace octet::ptxsim::matrix {
namespace {

enum class Largest { kFinite, kOneNan, kIeee };

constexpr struct FormatRow {
  Format format;
  std::string_view name;
  int bits, fraction_bits, bias;
  Largest largest;
  constexpr bool has_sign() const { return name[0] != 'u'; }
  constexpr uint32_t magnitude_mask() const { return ~0U >> (32 - bits + (has_sign() ? 1 : 0)); }
} kFormats[] = {
#define OCTET_PTX_FORMAT(constant, name, bits, fraction, bias, largest) \
  {Format::k##constant, name, bits, fraction, bias, Largest::largest},
#include "ptxsim/matrix/formats.inc"
#undef OCTET_PTX_FORMAT
};

const FormatRow& row_of(Format format) { return kFormats[static_cast<int>(format)]; }

// Of what stands below the sign.
double magnitude_value(const FormatRow& row, uint32_t magnitude) {
  const uint32_t exponent = magnitude >> row.fraction_bits;
  const uint32_t fraction = magnitude & ((1U << row.fraction_bits) - 1);
  const uint32_t most = row.magnitude_mask();
  if (row.largest == Largest::kOneNan && magnitude == most)
    return std::numeric_limits<double>::quiet_NaN();
  if (row.largest == Largest::kIeee && exponent == most >> row.fraction_bits)
    return fraction == 0 ? std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  const bool is_normal = exponent != 0 || !row.has_sign();
  const uint32_t significand = fraction | (is_normal ? 1U << row.fraction_bits : 0);
  const int scale = (is_normal ? static_cast<int>(exponent) : 1) - row.bias - row.fraction_bits;
  return std::ldexp(static_cast<double>(significand), scale);
}

}  // namespace

std::string_view format_name(Format format) { return row_of(format).name; }
int format_bits(Format format) { return row_of(format).bits; }
std::optional<Format> find_format(std::string_view name) {
  for (const FormatRow& row : kFormats) {
    if (row.name == name) return row.format;
  }
  return std::nullopt;
}

double value_of(Format format, uint32_t code) {
  const FormatRow& row = row_of(format);
  const double magnitude = magnitude_value(row, code & row.magnitude_mask());
  const bool is_negative = row.has_sign() && (code >> (row.bits - 1) & 1) != 0;
  return is_negative ? -magnitude : magnitude;
}

int exponent_of(Format format, uint32_t code) {
  const FormatRow& row = row_of(format);
  const int exponent = static_cast<int>((code & row.magnitude_mask()) >> row.fraction_bits);
  return (row.has_sign() ? std::max(exponent, 1) : exponent) - row.bias;
}

int span_bits(Format format) {
  const FormatRow& row = row_of(format);
  const uint32_t most = row.magnitude_mask() - (row.largest == Largest::kOneNan ? 1 : 0);
  const int largest =
      static_cast<int>(most >> row.fraction_bits) - (row.largest == Largest::kIeee ? 1 : 0);
  // 2^(largest exponent) in units of the smallest normal one's last bit, and the bits of the fraction.
  return largest - (row.has_sign() ? 1 : 0) + row.fraction_bits + 1;
}

}  // namespace octet::ptxsim::matrix
