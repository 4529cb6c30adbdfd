// SPDX-License-Identifier: Apache-2.0
// What the kernels on integers share (digit_dot.h, word_dot_avx2.cc): prefetching, and the blocks whose weight scales a shift
// does not decode, in plain code with those kernels' tree. semantics.md section 1.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/shape.h"
#include "cpu/panel_dot.h"
#include "cpu/prefetch.h"
#include "cpu/unroll.h"
#include "formats/mxfp4.h"
#include "formats/nvfp4.h"
#include "layouts/panel.h"

namespace octet::cpu::digits {

OCTET_INLINE float load_f32(const uint8_t* at) {
  float v;
  std::memcpy(&v, at, sizeof v);
  return v;
}

OCTET_INLINE void prefetch(const uint8_t* at, int64_t bytes, const Ahead& ahead) {
  const uintptr_t next = later(at, ahead);
  for (int64_t i = 0; i < bytes; i += kLineBytes)
    prefetch_line(next + static_cast<uintptr_t>(i), ahead.into_first);
}

// Whether a shift decodes a scale code: kOrdinaryFrom ... kOrdinaryTo.
template <WeightFormat kFormat>
constexpr uint8_t kOrdinaryFrom = kFormat == WeightFormat::kMxfp4 ? 1 : 0;
template <WeightFormat kFormat>
constexpr uint8_t kOrdinaryTo = kFormat == WeightFormat::kMxfp4 ? formats::kMxfp4LastFinite : 0x7E;
// By how much: to binary32's exponent, NVFP4's 2^-120 too small (digits.h, digit_gain).
template <WeightFormat kFormat>
constexpr int kScaleShift = kFormat == WeightFormat::kMxfp4 ? 23 : 20;

// Whether the scale codes of a group are all ordinary. Isa::is_ordinary() takes four blocks' codes, the last group may have fewer.
template <class Isa, WeightFormat kFormat>
OCTET_INLINE bool is_ordinary_group(const uint8_t* codes, int64_t num_blocks) {
  if (num_blocks == layouts::kPanelGroup) return Isa::template is_ordinary<kFormat>(codes);
  uint8_t scales[layouts::kPanelGroup * layouts::kPanelRows];
  std::memset(scales, kOrdinaryFrom<kFormat>, sizeof scales);
  std::memcpy(scales, codes, static_cast<size_t>(num_blocks * layouts::kPanelRows));
  return Isa::template is_ordinary<kFormat>(scales);
}

// One block, of integers `x` times 2 `unit`, into `acc` [16], one lane after the other. A UE8M0 code from 253 on gives weights
// that may be infinite each on its own: there the products are summed one by one.
template <class Isa, WeightFormat kFormat>
[[gnu::noinline]] void add_odd_block(const uint8_t* scales, const uint8_t* codes, const int32_t* x,
                                     float unit, float* acc) {
  constexpr int64_t kBlock = scale_block(kFormat);
  for (int64_t lane = 0; lane < layouts::kPanelRows; ++lane) {
    const auto code = [&](int64_t k) {
      const layouts::NibblePosition at = layouts::panel_tile_position(lane, k);
      return static_cast<uint8_t>(codes[at.byte] >> at.shift & 15);
    };
    if (kFormat == WeightFormat::kMxfp4 && scales[lane] > formats::kMxfp4LastFinite) {
      for (int64_t k = 0; k < kBlock; ++k) {
        const float w = formats::mxfp4_to_f32(code(k), scales[lane]);
        acc[lane] = std::fma(static_cast<float>(x[k]) * unit * 2.0F, w, acc[lane]);
      }
      continue;
    }
    int32_t sum = 0;
    for (int64_t k = 0; k < kBlock; ++k) sum += formats::e2m1_doubled(code(k)) * x[k];
    const float scale = kFormat == WeightFormat::kMxfp4
                            ? formats::ue8m0_to_f32(scales[lane])
                            : formats::e4m3_to_f32(scales[lane]) * 0x1p-120F;
    acc[lane] = std::fma(static_cast<float>(sum) * unit, scale, acc[lane]);
  }
}

}  // namespace octet::cpu::digits
