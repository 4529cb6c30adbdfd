// SPDX-License-Identifier: Apache-2.0
#include "cpu/quantize.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "cpu/ops.h"
#include "formats/bf16.h"
#include "formats/mxfp8.h"
#include "layouts/scale_layout.h"

namespace octet::cpu {
namespace {

// Columns that one unit of mxfp8_quantize takes: enough to be worth a hand-out, few enough to share one long row.
constexpr int64_t kUnitBlocks = 32;

// The largest magnitude of a block of x; NaN loses against numbers, a block without a number gives NaN. On the bits,
// whose order is that of the magnitudes.
float x_amax(const Bf16* x) {
  int32_t most = -1;
  for (int64_t i = 0; i < kMxBlock; ++i) {
    const int32_t magnitude = x[i].bits & 0x7FFF;
    most = std::max(most, magnitude > 0x7F80 ? -1 : magnitude);
  }
  if (most < 0) return std::numeric_limits<float>::quiet_NaN();
  return formats::bf16_to_f32({static_cast<uint16_t>(most)});
}

// The largest magnitude of a block of h: subnormals and NaN count as 0.
float h_amax(const float* h, int64_t count) {
  uint32_t most = 0;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(h[i]) & 0x7FFFFFFFU;
    most = std::max(most, magnitude > 0x7F800000U || magnitude < 0x00800000U ? 0 : magnitude);
  }
  return std::bit_cast<float>(most);
}

}  // namespace

void quantize_x_row(const Bf16* x, int64_t width, uint8_t* codes, uint8_t* scales_linear) {
  for (int64_t first = 0; first < width; first += kMxBlock) {
    const uint8_t scale = formats::x_scale_code(x_amax(x + first));
    scales_linear[first / kMxBlock] = scale;
    for (int64_t c = first; c < first + kMxBlock; ++c)
      codes[c] = formats::x_code(formats::bf16_to_f32(x[c]), scale);
  }
}

void quantize_h_row(const float* h, int64_t width, uint8_t* codes, uint8_t* scales) {
  for (int64_t first = 0; first < width; first += kMxBlock) {
    const int64_t end = std::min(first + kMxBlock, width);
    const uint8_t scale = formats::h_scale_code(h_amax(h + first, end - first));
    scales[first / kMxBlock] = scale;
    for (int64_t c = first; c < end; ++c) codes[c] = formats::h_code(h[c], scale);
  }
}

void dequantize_mxfp8_blocks(const uint8_t* codes, const uint8_t* scales, int64_t width,
                             float* out) {
  for (int64_t first = 0; first < width; first += kMxBlock) {
    const uint8_t code = scales[first / kMxBlock];
    const float scale = formats::ue8m0_to_f32(code) * (code < kHeldFrom ? 1.0F : kMxfp8Hold);
    const int64_t end = std::min(first + kMxBlock, width);
    for (int64_t c = first; c < end; ++c) out[c] = formats::e4m3_to_f32(codes[c]) * scale;
  }
}

Hold settle_mxfp8_row(const uint8_t* scales, int64_t width, float* row) {
  const int64_t blocks = ceil_div(width, kMxBlock);
  if (std::none_of(scales, scales + blocks, [](uint8_t code) { return code >= kHeldFrom; }))
    return Hold::kNone;
  Hold hold = Hold::kHeld;
  for (int64_t b = 0; b < blocks; ++b) {
    if (scales[b] >= kHeldFrom) continue;
    float* const from = row + b * kMxBlock;
    float* const end = row + std::min((b + 1) * kMxBlock, width);
    if (scales[b] < kExactBelow && std::any_of(from, end, [](float v) { return v != 0; }))
      hold = Hold::kExact;
    std::for_each(from, end, [](float& v) { v *= kMxfp8Hold; });
  }
  return hold;
}

void mxfp8_quantize(const QuantizeArgs& a, Executor& executor) {
  const int64_t cols = a.width / kMxBlock;
  if (a.layout != ScaleLayout::kLinear)
    std::fill_n(a.x_scale, layouts::scale_bytes(a.layout, a.tokens, cols), uint8_t{0});
  const int64_t units = ceil_div(cols, kUnitBlocks);  // a row
  parallel_for(executor, a.tokens * units, [&](int64_t unit, int) {
    const int64_t row = unit / units;
    const int64_t first = unit % units * kUnitBlocks;
    const int64_t count = std::min(kUnitBlocks, cols - first);
    const int64_t at = row * a.width + first * kMxBlock;
    uint8_t scales[kUnitBlocks];
    quantize_x_row(a.x + at, count * kMxBlock, a.x_quant + at, scales);
    for (int64_t c = 0; c < count; ++c)
      a.x_scale[layouts::scale_offset(a.layout, cols, row, first + c)] = scales[c];
  });
}

}  // namespace octet::cpu
