// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/insn/approx.h"

#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <fstream>
#include <vector>

#include "ptxsim/insn/numeric.h"

namespace octet::ptxsim::insn {
namespace {

struct Tables {
  std::vector<int8_t> ex2, rcp, sqrt;
};
Tables& tables() {
  static Tables all;
  return all;
}

constexpr uint32_t kMantissa = 0x7FFFFF;

// The rounded result of `exact`, `delta` last places away.
uint32_t rounded(double exact, int delta = 0) {
  const uint32_t bits = bits32(float(exact));
  return delta == 0 || !std::isfinite(f32(bits)) ? bits : bits + uint32_t(delta);
}

int delta_of(const std::vector<int8_t>& table, uint32_t index) {
  return table.empty() ? 0 : table[index];
}

// 2^(fraction of a) and the power of two: a in fixed point with 23 fraction bits, its negatives in one's complement unless they are
// whole. This is how the device's results over all arguments follow from those over [1, 2).
double ex2_fixed(float a) {
  const double n = std::floor(std::fabs(double(a)) * double(1 << 23));
  const auto magnitude = int64_t(n);
  const int64_t v = a >= 0                         ? magnitude
                    : (magnitude & kMantissa) == 0 ? -magnitude
                                                   : -(magnitude + 1);
  const auto fraction = uint32_t(v & kMantissa);
  const uint32_t bits =
      rounded(std::exp2(1 + double(fraction) / double(1 << 23)), delta_of(tables().ex2, fraction));
  return std::ldexp(double(f32(bits)), int(v >> 23) - 1);
}

double ex2_value(uint32_t a) {
  const float value = f32(a);
  if (std::isnan(value)) return value;
  if (value >= 128) return std::numeric_limits<double>::infinity();
  if (value < -200) return 0;
  return ex2_fixed(value);
}

}  // namespace

uint32_t ex2_approx_ftz(uint32_t a) { return flush(bits32(float(ex2_value(flush(a))))); }

uint32_t ex2_approx(uint32_t a) {
  if (!(f32(a) < -126)) return bits32(float(ex2_value(a)));
  const float half = f32(ex2_approx_ftz(std::bit_cast<uint32_t>(f32(a) / 2)));
  return bits32(half * half);
}

uint32_t rcp_approx(uint32_t a) {
  const float value = f32(a);
  if (std::isnan(value) || value == 0 || std::isinf(value)) return bits32(1 / value);
  int exponent = 0;
  const double mantissa = 2 * std::frexp(std::fabs(double(value)), &exponent);
  const auto index = uint32_t((mantissa - 1) * double(1 << 23));
  const double near = double(f32(rounded(1 / mantissa, delta_of(tables().rcp, index))));
  return bits32(float(std::copysign(std::ldexp(near, 1 - exponent), double(value))));
}

uint32_t sqrt_approx(uint32_t a) {
  const float value = f32(a);
  if (!(value > 0) || std::isinf(value)) return bits32(std::sqrt(value));
  int exponent = 0;
  double mantissa = 2 * std::frexp(double(value), &exponent);
  --exponent;  // value = mantissa * 2^exponent, mantissa in [1, 2)
  const bool is_odd = (exponent & 1) != 0;
  const auto index = uint32_t((mantissa - 1) * double(1 << 23)) + (is_odd ? 1u << 23 : 0);
  if (is_odd) {
    mantissa *= 2;
    --exponent;
  }
  const double near = double(f32(rounded(std::sqrt(mantissa), delta_of(tables().sqrt, index))));
  return bits32(float(std::ldexp(near, exponent / 2)));
}

uint32_t rsqrt_approx(uint32_t a) { return rounded(1 / std::sqrt(double(f32(a)))); }
uint32_t lg2_approx(uint32_t a) { return rounded(std::log2(double(f32(a)))); }
uint32_t tanh_approx(uint32_t a) { return rounded(std::tanh(double(f32(a)))); }

template <bool kFtz, bool kIsFull>
uint32_t div_approx(uint32_t a, uint32_t c) {
  float dividend = f32(kFtz ? flush(a) : a), divisor = f32(kFtz ? flush(c) : c);
  const float magnitude = std::fabs(divisor);
  const float scale = kIsFull && magnitude > 0x1p126f ? 0.25f : magnitude < 0x1p-126f ? 0x1p24f : 1;
  if (magnitude <= std::numeric_limits<float>::max()) {
    dividend *= scale;
    divisor *= scale;
  }
  const float reciprocal = f32(flush(rcp_approx(std::bit_cast<uint32_t>(divisor))));
  const uint32_t bits = bits32(dividend * reciprocal);
  return kFtz ? flush_result(bits, double(dividend) * double(reciprocal)) : bits;
}
template uint32_t div_approx<false, false>(uint32_t, uint32_t);
template uint32_t div_approx<false, true>(uint32_t, uint32_t);
template uint32_t div_approx<true, false>(uint32_t, uint32_t);
template uint32_t div_approx<true, true>(uint32_t, uint32_t);

Status use_approx_tables(const std::string& folder) {
  const auto read = [&](const char* name, size_t count, std::vector<int8_t>* into) -> Status {
    const std::string path = folder + "/" + name;
    std::ifstream in(path, std::ios::binary);
    into->assign(count, 0);
    in.read(reinterpret_cast<char*>(into->data()), std::streamsize(count));
    if (size_t(in.gcount()) == count) return {};
    into->clear();
    return io_error(fmt::format("{}: {} bytes, want {}", path, in.gcount(), count));
  };
  OCTET_RETURN_IF_ERROR(read("ex2.i8", size_t{1} << 23, &tables().ex2));
  OCTET_RETURN_IF_ERROR(read("rcp.i8", size_t{1} << 23, &tables().rcp));
  return read("sqrt.i8", size_t{1} << 24, &tables().sqrt);
}

}  // namespace octet::ptxsim::insn
