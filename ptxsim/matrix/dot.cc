// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/matrix/dot.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ptxsim/matrix/exact_sum.h"

namespace octet::ptxsim::matrix {
namespace {

constexpr uint32_t kNan = 0x7FFFFFFF;

float nan_f32() { return std::bit_cast<float>(kNan); }

struct Line {
  const double* a;
  const double* b;
  const int16_t* a_exponent;
  const int16_t* b_exponent;
  int depth;
  bool has_few_bits;  // of both spans and the number of terms
};

// All terms one by one, without limits.
float dot_wide(const Line& line, const Term& term) {
  ExactSum sum;
  for (int k = 0; k < line.depth; ++k)
    sum.add(std::ldexp(line.a[k] * line.b[k], term.scale_exponent));
  sum.add(term.c);
  return sum.round_to_f32();
}

// A sum that says what it lost.
struct Pair {
  double value, error;
};
Pair two_sum(double a, double b) {
  const double value = a + b, back = value - a;
  return {value, (a - (value - back)) + (b - back)};
}

// In any order: no sum of these terms needs more than a double's 53 bits.
double sum_of_few_bits(const Line& line) {
  double sums[4] = {-0.0, -0.0, -0.0, -0.0};
  int k = 0;
  for (; k + 4 <= line.depth; k += 4) {
    for (int i = 0; i < 4; ++i) sums[i] += line.a[k + i] * line.b[k + i];
  }
  for (; k < line.depth; ++k) sums[0] += line.a[k] * line.b[k];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// `lost`: 0 if the sum is exact, NaN once something was not finite.
double sum_that_tells(const Line& line, double& lost) {
  double sum = -0.0;
  for (int k = 0; k < line.depth; ++k) {
    const Pair next = two_sum(sum, line.a[k] * line.b[k]);
    sum = next.value;
    lost += std::fabs(next.error);
  }
  return sum;
}

// Products are exact; most sums are, too: a sum of 32 e2m1 * e4m3 takes 27 bits.
float dot_exact(const Line& line, const Term& term) {
  double lost = 0;
  const double sum = line.has_few_bits ? sum_of_few_bits(line) : sum_that_tells(line, lost);
  if (!std::isfinite(sum) || !std::isfinite(term.c)) {
    const double special = sum + static_cast<double>(term.c);
    return std::isnan(special) ? nan_f32() : static_cast<float>(special);
  }
  if (lost != 0) return dot_wide(line, term);
  const Pair all = two_sum(std::ldexp(sum, term.scale_exponent), term.c);
  return round_pair_to_f32(all.value, all.error);
}

constexpr int kNoWeight = std::numeric_limits<int>::min();

// The largest weight of a term that is not zero, and the sum of those that are no numbers (0: none).
struct Largest {
  int exponent = kNoWeight;
  double special = 0;
};
Largest largest_term(const Line& line, const Term& term) {
  Largest out;
  for (int k = 0; k < line.depth; ++k) {
    const double product = line.a[k] * line.b[k];
    if (product == 0) continue;
    if (!(std::fabs(product) <= std::numeric_limits<double>::max())) out.special += product;
    out.exponent = std::max(out.exponent, line.a_exponent[k] + line.b_exponent[k]);
  }
  if (out.exponent != kNoWeight) out.exponent += term.scale_exponent;
  if (!std::isfinite(term.c)) out.special += term.c;
  if (term.c != 0 && std::isfinite(term.c))
    out.exponent = std::max(out.exponent, std::max(std::ilogb(term.c), -126));
  return out;
}

float dot_truncated(const Line& line, const Term& term, Arithmetic arithmetic) {
  const Largest largest = largest_term(line, term);
  if (!(largest.special == 0))
    return std::isnan(largest.special) ? nan_f32() : static_cast<float>(largest.special);
  if (largest.exponent == kNoWeight) return 0;  // zeros alone
  // In units, toward zero: at most fraction_bits + 2 bits a term.
  const int unit = largest.exponent - arithmetic.fraction_bits;
  const double to_units = std::ldexp(1.0, term.scale_exponent - unit);
  auto sum = static_cast<int64_t>(std::ldexp(static_cast<double>(term.c), -unit));
  for (int k = 0; k < line.depth; ++k)
    sum += static_cast<int64_t>(line.a[k] * line.b[k] * to_units);
  if (sum == 0) return 0;
  // To f32's bits, toward zero; subnormal numbers have fewer.
  const auto bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(std::abs(sum))));
  const int cut = std::max({bits - arithmetic.result_bits, -149 - unit, 0});
  const int64_t kept = cut > 62 ? 0 : std::abs(sum) >> cut;
  if (kept == 0) return 0;
  const double magnitude = std::ldexp(static_cast<double>(kept), unit + cut);
  const double value = sum < 0 ? -magnitude : magnitude;
  if (magnitude > static_cast<double>(std::numeric_limits<float>::max()))
    return std::copysign(std::numeric_limits<float>::infinity(), static_cast<float>(value));
  return static_cast<float>(value);
}

struct Decoded {
  double value;
  int exponent;
};

std::vector<Decoded> decode_all(Format format) {
  std::vector<Decoded> all(size_t{1} << format_bits(format));
  for (uint32_t code = 0; code < all.size(); ++code)
    all[code] = {value_of(format, code), exponent_of(format, code)};
  return all;
}

// All codes of a format of at most 16 bits; null: there are more.
const Decoded* decoded(Format format) {
  static const std::vector<std::vector<Decoded>> tables = [] {
    std::vector<std::vector<Decoded>> made;
    for (int i = 0; i <= static_cast<int>(Format::kBf16); ++i)
      made.push_back(decode_all(Format(i)));
    return made;
  }();
  const auto at = static_cast<size_t>(format);
  return at < tables.size() ? tables[at].data() : nullptr;
}

}  // namespace

Factors::Factors(Format format, std::span<const uint32_t> codes, int lines, int depth,
                 bool is_negated)
    : lines_(lines),
      depth_(depth),
      span_bits_(matrix::span_bits(format)),
      values_(codes.size()),
      exponents_(codes.size()) {
  const Decoded* table = decoded(format);
  const uint32_t mask = ~0U >> (32 - format_bits(format));
  for (size_t i = 0; i < codes.size(); ++i) {
    const Decoded one = table != nullptr
                            ? table[codes[i] & mask]
                            : Decoded{value_of(format, codes[i]), exponent_of(format, codes[i])};
    values_[i] = is_negated ? -one.value : one.value;
    exponents_[i] = static_cast<int16_t>(one.exponent);
  }
}

float dot(const Factors& a, const Factors& b, const Term& term, Arithmetic arithmetic) {
  if (term.scale_is_nan) return nan_f32();
  const Line line = {
      a.values(term.a_line),
      b.values(term.b_line),
      a.exponents(term.a_line),
      b.exponents(term.b_line),
      a.depth(),
      a.span_bits() + b.span_bits() + std::bit_width(static_cast<unsigned>(a.depth())) <= 53};
  return arithmetic.sum == Arithmetic::Sum::kExact ? dot_exact(line, term)
                                                   : dot_truncated(line, term, arithmetic);
}

}  // namespace octet::ptxsim::matrix
