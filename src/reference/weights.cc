// SPDX-License-Identifier: Apache-2.0
// dequantize and quantize_weight. semantics.md section 1; the rules of rounding are oracle/README.md's 7 and 8 [D].
#include <algorithm>
#include <cmath>
#include <vector>

#include "formats/bf16.h"
#include "formats/mxfp4.h"
#include "formats/nvfp4.h"
#include "reference/decode.h"
#include "reference/reference.h"

namespace octet::reference {
namespace {

// A row of numbers to pairs and scales; step(scale code) is what a code counts in; 0: every element becomes 0.
struct RowQuantizer {
  int64_t block;
  const double* v;
  uint8_t* pairs;

  double amax(int64_t b) const {
    double a = 0;
    for (int64_t i = b * block; i < (b + 1) * block; ++i) a = std::max(a, std::fabs(v[i]));
    return a;
  }
  uint8_t code(int64_t i, double step) const {
    return step > 0 ? formats::e2m1_from_f64(v[i] / step, std::signbit(v[i])) : uint8_t{0};
  }
  void elements(int64_t b, double step) const {
    for (int64_t i = b * block; i < (b + 1) * block; i += 2) {
      pairs[i / 2] = formats::e2m1_pair(code(i, step), code(i + 1, step));
    }
  }
};

std::vector<double> numbers(const QuantizeWeightArgs& args) {
  std::vector<double> v(args.rows * args.width);
  for (size_t i = 0; i < v.size(); ++i) {
    v[i] = args.value_f32 != nullptr ? args.value_f32[i] : formats::bf16_to_f32(args.value_bf16[i]);
  }
  return v;
}

// amax / 2688, so that the largest element under the largest scale is amax; 1 for a tensor of zeros alone. A quotient that
// rounds to 0 would lose every element, and loading refuses a factor of 0: it becomes the least number above 0.
float nvfp4_factor(const std::vector<double>& v) {
  double amax = 0;
  for (const double e : v) amax = std::max(amax, std::fabs(e));
  if (amax == 0) return 1.0F;
  const auto factor = static_cast<float>(amax / formats::kNvfp4Max);
  return factor == 0 ? 0x1p-149F : factor;
}

}  // namespace

void dequantize(const DequantizeArgs& args) {
  const int64_t blocks = args.width / scale_block(args.format);
  std::vector<double> row(args.width);
  for (int64_t r = 0; r < args.rows; ++r) {
    decode_row(
        args.format, args.weight + r * (args.width / 2), 0, args.width,
        [&](int64_t b) { return args.scale[r * blocks + b]; }, row.data());
    float factor = 1;
    if (args.global_scale != nullptr)
      factor = args.global_scale[r / (args.rows / args.num_globals)];
    for (int64_t k = 0; k < args.width; ++k) {
      args.value[r * args.width + k] = static_cast<float>(row[k] * factor);
    }
  }
}

void quantize_weight(const QuantizeWeightArgs& args) {
  const std::vector<double> v = numbers(args);
  const int64_t block = scale_block(args.format);
  const int64_t blocks = args.width / block;
  const bool mxfp4 = args.format == WeightFormat::kMxfp4;
  const double factor = mxfp4 ? 1.0 : nvfp4_factor(v);
  if (!mxfp4) *args.global_scale = static_cast<float>(factor);
  for (int64_t r = 0; r < args.rows; ++r) {
    const RowQuantizer row{block, v.data() + r * args.width, args.weight + r * (args.width / 2)};
    for (int64_t b = 0; b < blocks; ++b) {
      uint8_t& scale = args.scale[r * blocks + b];
      scale = mxfp4 ? formats::mxfp4_scale_code(row.amax(b))
                    : formats::e4m3_from_f64(row.amax(b) / 6.0 / factor);
      row.elements(b, mxfp4 ? formats::ue8m0_to_f32(scale) : formats::e4m3_to_f32(scale) * factor);
    }
  }
}

}  // namespace octet::reference
