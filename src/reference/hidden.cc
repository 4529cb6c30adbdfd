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

uint8_t quantize_nominal(const Span* h, uint8_t* codes) {
  double nominal[kMxBlock];
  for (int64_t i = 0; i < kMxBlock; ++i) nominal[i] = h[i].value;
  return quantize_h_block(nominal, codes);
}

uint8_t nominal_scale(const Span* h) {
  uint8_t codes[kMxBlock];
  return quantize_nominal(h, codes);
}

bool is_legitimate_scale(const Span* h, uint8_t scale) {
  const CodeRange range = code_range(h);
  return (scale >= range.lo && scale <= range.hi) || scale == nominal_scale(h);
}

void block_through_mxfp8(Span* h) {
  uint8_t codes[kMxBlock];
  const uint8_t scale = quantize_nominal(h, codes);
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

std::vector<double> judge_h_mxfp8(std::vector<Span> h, const uint8_t* codes, const uint8_t* scales,
                                  const ReportElement& report) {
  const auto columns = static_cast<int64_t>(h.size());
  h.resize(round_up(columns, kMxBlock));
  std::vector<double> row;
  for (int64_t c = 0; c < columns; ++c) {
    const int64_t first = c / kMxBlock * kMxBlock;
    const uint8_t scale = scales[c / kMxBlock];
    const bool legitimate = is_legitimate_scale(&h[first], scale);
    const uint8_t judged_under = legitimate ? scale : nominal_scale(&h[first]);
    const Span want = judged_under == formats::kUe8m0Nan
                          ? Span{NAN, NAN, NAN}
                          : map(h[c], [&](double v) { return rounded_under(v, judged_under); });
    row.push_back(mxfp8_value(codes[c], scale));
    report({c, row.back(), closed(want), legitimate && is_inside(row.back(), closed(want))});
  }
  return row;
}

std::vector<double> judge_h_bf16(const std::vector<Span>& h, const Bf16* rounded,
                                 const ReportElement& report) {
  std::vector<double> row;
  for (size_t c = 0; c < h.size(); ++c) {
    const Span want = closed(bf16_round(h[c]));
    row.push_back(formats::bf16_to_f32(rounded[c]));
    report({static_cast<int64_t>(c), row.back(), want, is_inside(row.back(), want)});
  }
  return row;
}

}  // namespace octet::reference
