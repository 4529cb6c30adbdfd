// SPDX-License-Identifier: Apache-2.0
// The panel kernels for any machine, in the vectors of four that g++ and clang lower to whatever there is. (Loops over
// 16 lanes, left to the compiler, were three times slower with g++ 12.) Product and sum round apart: std::fma without
// hardware is a call each, and products of these formats are exact short of overflow, so the numbers are the same.
//
// Rounding: each (row, lane) has two accumulators, of the even and of the odd k, both ascending, added at the end.
#include <bit>
#include <cstring>

#include "cpu/panel_dot.h"
#include "formats/e4m3.h"
#include "formats/ue8m0.h"
#include "layouts/panel.h"

namespace octet::cpu {
namespace {

using layouts::kPanelRows;

constexpr int kLanes = 4;  // of the panel's 16, taken at a time
using Floats = float __attribute__((vector_size(4 * kLanes)));
using Words = uint32_t __attribute__((vector_size(4 * kLanes)));

// The E2M1 codes in the low nibbles of `words`, times the lanes' scales. Computed, not looked up: there is no gather.
// y = 1, 1.5, 2, 3, 4, 6, 8, 12 has the magnitude's bits under an exponent of 0; the magnitude is y / 2, but y - 1 where
// that is less (0 and 0.5).
inline Floats decode(const Words& words, const Floats& scale) {
  const auto y = std::bit_cast<Floats>(0x3F800000U + ((words & 7U) << 22));
  const Floats half = y * 0.5F;
  const Floats less = y - 1.0F;
  const Floats magnitude = less < half ? less : half;
  return std::bit_cast<Floats>(std::bit_cast<Words>(magnitude) | ((words & 8U) << 28)) * scale;
}

template <WeightFormat kFormat>
inline Floats decode_scales(const uint8_t* codes) {
  Floats scale;
  for (int r = 0; r < kLanes; ++r) {
    scale[r] = kFormat == WeightFormat::kMxfp4 ? formats::ue8m0_to_f32(codes[r])
                                               : formats::e4m3_to_f32(codes[r]);
  }
  return scale;
}

// One block: element j of a line is nibble 2 j of a word, or 2 (j - 4) + 1 from the fourth on.
template <WeightFormat kFormat, int kRows>
inline void block(const uint8_t* codes, const Floats& scale, const float* const* x, int64_t k,
                  Floats (&acc)[kRows][2]) {
  for (int64_t i = 0; i < scale_block(kFormat) / 8; ++i) {
    Words words;
    std::memcpy(&words, codes + 64 * i, sizeof words);
    for (int j = 0; j < 8; ++j) {
      const Floats w = decode(words >> (j % 4 * 8 + j / 4 * 4), scale);
      for (int row = 0; row < kRows; ++row) acc[row][j % 2] += w * x[row][k + 8 * i + j];
    }
  }
}

template <WeightFormat kFormat, int kRows>
void dot(const uint8_t* panel, int64_t num_blocks, const float* const* x, float* out) {
  constexpr int64_t kBlock = scale_block(kFormat);
  for (int lane = 0; lane < kPanelRows; lane += kLanes) {
    Floats acc[kRows][2] = {};
    for (int64_t b = 0; b < num_blocks; ++b) {
      const uint8_t* scales = panel + layouts::panel_scale_position(kFormat, lane, b);
      const uint8_t* codes =
          panel + layouts::panel_code_position(kFormat, num_blocks, lane, b * kBlock).byte;
      block<kFormat>(codes, decode_scales<kFormat>(scales), x, b * kBlock, acc);
    }
    for (int row = 0; row < kRows; ++row) {
      const Floats sum = acc[row][0] + acc[row][1];
      std::memcpy(out + row * kPanelRows + lane, &sum, sizeof sum);
    }
  }
}

template <WeightFormat kFormat>
void dot_rows(const uint8_t* panel, int64_t num_blocks, const float* const* x, int num_rows,
              float* out) {
  constexpr void (*kByRows[])(const uint8_t*, int64_t, const float* const*, float*) = {
      dot<kFormat, 1>, dot<kFormat, 2>, dot<kFormat, 3>, dot<kFormat, 4>};
  kByRows[num_rows - 1](panel, num_blocks, x, out);
}

}  // namespace

// Weights are always multiplied by their scales first.
const FloatDots kFloatDotsPortable{
    {dot_rows<WeightFormat::kMxfp4>, dot_rows<WeightFormat::kMxfp4>},
    {dot_rows<WeightFormat::kNvfp4>, dot_rows<WeightFormat::kNvfp4>},
    &kLanesPortable,
};

}  // namespace octet::cpu
