// SPDX-License-Identifier: Apache-2.0
#include "reference/hidden.h"

#include <algorithm>
#include <cmath>

#include "core/shape.h"
#include "formats/mxfp8.h"
#include "reference/decode.h"

namespace octet::reference {
namespace {

float flushed(double v) { return formats::flush_subnormal(static_cast<float>(v)); }

struct CodeRange {
  uint8_t lo, hi;
};

// Least and greatest legitimate scale code of a block; 127 is one of them if the amax may be zero.
CodeRange code_range(const Span* h) {
  float a = 0;  // the least amax
  float b = 0;  // the greatest
  for (int64_t i = 0; i < kMxBlock; ++i) {
    if (!std::isfinite(h[i].lo) || !std::isfinite(h[i].hi)) continue;
    const double lo = std::fabs(h[i].lo);
    const double hi = std::fabs(h[i].hi);
    const bool may_be_zero = h[i].lo <= 0 && h[i].hi >= 0;
    a = std::max(a, flushed(may_be_zero ? 0.0 : std::min(lo, hi)));
    b = std::max(b, flushed(std::max(lo, hi)));
  }
  const uint8_t most = formats::h_scale_code(b);
  if (a == 0 && b > 0) return {0, std::max<uint8_t>(most, 127)};
  return {formats::h_scale_code(a), most};
}

// E4M3 of v under a scale code, as a number.
double rounded_under(double v, uint8_t code) {
  const double inverse = std::ldexp(1.0, 127 - code);
  return formats::e4m3_to_f32(formats::e4m3_from_f64(v * inverse)) / inverse;
}

void block_through_mxfp8(Span* h) {
  double nominal[kMxBlock];
  uint8_t codes[kMxBlock];
  for (int64_t i = 0; i < kMxBlock; ++i) nominal[i] = h[i].value;
  const uint8_t scale = quantize_h_block(nominal, codes);
  const CodeRange range = code_range(h);
  for (int64_t i = 0; i < kMxBlock; ++i) {
    const double value = mxfp8_value(codes[i], scale);
    Span s{value, value, value};
    for (const uint8_t code : {range.lo, range.hi}) {
      for (const double end : {h[i].lo, h[i].hi}) {
        const double v = rounded_under(end, code);
        s.lo = least(s.lo, v);
        s.hi = greatest(s.hi, v);
      }
    }
    h[i] = s;
  }
}

}  // namespace

uint8_t quantize_h_block(const double* h, uint8_t* codes) {
  float amax = 0;  // NaN loses against numbers
  for (int64_t i = 0; i < kMxBlock; ++i) amax = std::fmax(amax, std::fabs(flushed(h[i])));
  const uint8_t scale = formats::h_scale_code(amax);
  for (int64_t i = 0; i < kMxBlock; ++i) codes[i] = formats::h_code(flushed(h[i]), scale);
  return scale;
}

std::vector<Span> h_mxfp8(std::vector<Span> h) {
  const size_t columns = h.size();
  h.resize(round_up(static_cast<int64_t>(columns), kMxBlock));
  for (size_t b = 0; b < h.size(); b += kMxBlock) block_through_mxfp8(&h[b]);
  h.resize(columns);
  return h;
}

}  // namespace octet::reference
