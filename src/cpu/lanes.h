// SPDX-License-Identifier: Apache-2.0
// What becomes of a panel's 16 sums of a row: eight columns of h, or 16 of y. One source (lanes.inc) for two instruction
// sets; every step is one rounding in both, so the bytes are the same.
#pragma once

#include "core/dtype.h"
#include "core/shape.h"
#include "layouts/panel.h"

namespace octet::cpu {

constexpr int kHiddenLanes = static_cast<int>(layouts::kPanelRows) / 2;  // of a gate_up panel

// h[i] = swiglu(up = acc[8 + i] * up_factor + up_bias[i], gate = acc[i] * gate_factor + gate_bias[i]), activation.h
struct HiddenLanes {
  float gate_factor = 1, up_factor = 1;
  const float *gate_bias = nullptr, *up_bias = nullptr;  // [8] or null
  Swiglu swiglu;
};
// y[i] = bf16(acc[i] * factor + bias[i])
struct OutputLanes {
  float factor = 1;
  const float* bias = nullptr;  // [16] or null
};

// What an instruction set compiles.
struct LaneFns {
  void (*hidden)(const HiddenLanes& lanes, const float* acc, float* h);  // 16 sums, 8 columns
  void (*output)(const OutputLanes& lanes, const float* acc, Bf16* y);   // 16 sums, 16 columns
};
extern const LaneFns kLanesPortable, kLanesAvx2;  // NOLINT(readability-identifier-naming)

}  // namespace octet::cpu
