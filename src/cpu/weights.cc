// SPDX-License-Identifier: Apache-2.0
// 4-bit weights to numbers and back. Source: semantics.md section 1; oracle/README.md rules 7 and 8 [D].
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "cpu/ops.h"
#include "formats/bf16.h"
#include "formats/mxfp4.h"
#include "formats/nvfp4.h"
#include "layouts/expert_weights.h"

namespace octet::cpu {
namespace {

constexpr int64_t kMaxBlock = std::max(kMxBlock, kNvBlock);

// Value [row, col] of what is to be quantised.
double value_at(const QuantizeWeightArgs& a, int64_t row, int64_t col) {
  const int64_t at = row * a.width + col;
  return static_cast<double>(a.value_f32 != nullptr ? a.value_f32[at]
                                                    : formats::bf16_to_f32(a.value_bf16[at]));
}

double amax_of(const double* v, int64_t count) {
  double most = 0;
  for (int64_t i = 0; i < count; ++i) most = std::max(most, std::fabs(v[i]));
  return most;
}

// The largest magnitude of the whole tensor; the same whatever the order of the rows.
float tensor_amax(const QuantizeWeightArgs& a, Executor& executor) {
  std::atomic<float> most{0.0F};
  parallel_for(executor, a.rows, [&](int64_t row, int) {
    double row_most = 0;
    for (int64_t c = 0; c < a.width; ++c)
      row_most = std::max(row_most, std::fabs(value_at(a, row, c)));
    const auto mine = static_cast<float>(row_most);  // exact: one of the values
    float seen = most.load(std::memory_order_relaxed);
    while (seen < mine && !most.compare_exchange_weak(seen, mine, std::memory_order_relaxed)) {
    }
  });
  return most.load();
}

// amax / 2688: then the largest block scale is 448. Above 0 always, as loading wants it.
float nvfp4_factor(float amax) {
  if (amax == 0) return 1.0F;
  const double factor = static_cast<double>(amax) / static_cast<double>(formats::kNvfp4Max);
  return std::max(static_cast<float>(factor), std::numeric_limits<float>::denorm_min());
}

struct BlockScale {
  uint8_t code;
  double step;  // what element 1 means; 0: all elements are 0
};

BlockScale scale_of(WeightFormat format, double amax, float factor) {
  if (format == WeightFormat::kMxfp4) {
    const uint8_t code = formats::mxfp4_scale_code(amax);
    return {code, static_cast<double>(formats::ue8m0_to_f32(code))};
  }
  const double wanted = amax / 6.0 / static_cast<double>(factor);
  const uint8_t code = formats::e4m3_from_f64(wanted);
  return {code, static_cast<double>(formats::e4m3_to_f32(code)) * static_cast<double>(factor)};
}

uint8_t element_code(double v, double step) {
  const double element = step > 0 ? v / step : 0.0;
  return formats::e2m1_from_f64(element, std::signbit(element));
}

void quantize_row(const QuantizeWeightArgs& a, int64_t row, float factor) {
  const int64_t block = scale_block(a.format);
  for (int64_t first = 0; first < a.width; first += block) {
    double v[kMaxBlock];
    for (int64_t i = 0; i < block; ++i) v[i] = value_at(a, row, first + i);
    const BlockScale scale = scale_of(a.format, amax_of(v, block), factor);
    a.scale[(row * a.width + first) / block] = scale.code;
    uint8_t* pairs = a.weight + (row * a.width + first) / 2;
    for (int64_t i = 0; i < block / 2; ++i) {
      pairs[i] = formats::e2m1_pair(element_code(v[2 * i], scale.step),
                                    element_code(v[2 * i + 1], scale.step));
    }
  }
}

}  // namespace

// Element times block scale is exact in binary32 (infinite from 2^128 on), times the factor exact in double.
void dequantize(const DequantizeArgs& a, Executor& executor) {
  const int64_t row_scales = a.width / scale_block(a.format);
  const layouts::WeightView weights{.format = a.format,
                                    .codes = a.weight,
                                    .scales = a.scale,
                                    .code_stride = a.width / 2,
                                    .scale_stride = row_scales,
                                    .rows = a.rows,
                                    .cols = a.width};
  parallel_for(executor, a.rows, [&](int64_t row, int) {
    float* out = a.value + row * a.width;
    for (int64_t c = 0; c < a.width; ++c) out[c] = weights.value(row, c);
    if (a.global_scale == nullptr) return;
    const auto factor = static_cast<double>(a.global_scale[row / (a.rows / a.num_globals)]);
    for (int64_t c = 0; c < a.width; ++c)
      out[c] = static_cast<float>(static_cast<double>(out[c]) * factor);
  });
}

void quantize_weight(const QuantizeWeightArgs& a, Executor& executor) {
  float factor = 1.0F;
  if (a.format == WeightFormat::kNvfp4) {
    factor = nvfp4_factor(tensor_amax(a, executor));
    *a.global_scale = factor;
  }
  parallel_for(executor, a.rows, [&](int64_t row, int) { quantize_row(a, row, factor); });
}

}  // namespace octet::cpu
