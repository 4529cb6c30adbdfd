// SPDX-License-Identifier: Apache-2.0
// The inner kernel: one panel (layouts/panel.h) times a few activation rows.
//
//   out[r * 16 + lane] = sum over k of decode(panel, lane, k) * x[r][k]
//
// Weights count with their exact binary32 values (infinite from 2^128 on), x[r] has num_blocks * G floats (zero where the
// panel has padding): BF16 or MXFP8 numbers, exact, the latter perhaps held times a power of two (quantize.h). Products are
// exact but below 2^-149 (docs/numerics.md, ends of the range), so accumulation rounds; its tree is fixed by shape, weights
// and the row alone, never by the other rows; each instruction set's file says which tree.
// Truth: reference/layer.h. Bound: docs/numerics.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/shape.h"
#include "cpu/lanes.h"

namespace octet::cpu {

constexpr int kMostFloatRows = 4;  // activation rows a call takes: what fits the registers

using PanelDotFn = void (*)(const uint8_t* panel, int64_t num_blocks, const float* const* x,
                            int num_rows, float* out);

// One weight format's kernels on binary32. `exact` multiplies each weight by its scale first, whatever the scale: for rows
// whose numbers are too small for a kernel that shrinks weights (quantize.h, Hold::kExact); one row a call.
struct FloatDot {
  PanelDotFn dot, exact;
};
struct FloatDots {
  FloatDot mxfp4, nvfp4;
  const LaneFns* lanes;
};

// ---- the same for rows held as integers (digits.h, words.h): block sums are exact there

// How weights are read: so many panels abreast, a group of each in turn, and each line asked for `bytes` before its use, into the
// first-level cache or the second.
struct Streaming {
  int panels;
  int64_t bytes;
  bool into_first;
};
constexpr int kMostPanels = 2;
// What reads fastest on this processor. The same bytes with each. Measured: bench/results/2026-11-30-epyc-genoa-cpu-lost.md,
// 2026-12-01-xeon-480mb-cpu-lost.md.
const Streaming& streaming();

// What a thread reads after a panel: on to `end`, then at `jump` bytes from where it would be; and when it is asked for.
struct Ahead {
  const uint8_t* end;
  std::ptrdiff_t jump;
  int64_t bytes;
  bool into_first;
};
// A panel as it is read.
struct PanelStream {
  const uint8_t* panel;
  Ahead ahead;
};
// False: the row has numbers that integers don't hold.
using EncodeFn = bool (*)(const float* x, int64_t num_blocks, uint8_t* integers);
// The results, out [panels, num_rows, 16], times digit_gain(format) are the sums. One panel to kMostPanels, read abreast.
using IntegerDotFn = void (*)(std::span<const PanelStream> panels, int64_t num_blocks,
                              const uint8_t* const* integers, int num_rows, float* out);
struct IntegerDot {
  EncodeFn encode;
  IntegerDotFn dot;
  int most_rows;  // of a call
};
struct IntegerDots {
  IntegerDot mxfp4[2], nvfp4[2];  // of two planes, of three
};

// One instruction set's kernels for one weight format and number of planes.
struct RowDot {
  FloatDot floats;
  const LaneFns* lanes;
  const IntegerDot *few, *many;  // null: none
  Streaming streaming;
};
// One instruction set's kernels. `few` are those of digits; without them all rows are held as floats. `many`, of words, serve
// experts of kManyRows rows and more; null: `few` do. Same bytes from both.
struct PanelDot {
  const FloatDots* floats;
  const IntegerDots *few, *many;
  const Streaming* streaming = nullptr;  // null: the processor's
  RowDot of(WeightFormat format, int planes) const {
    const bool is_mxfp4 = format == WeightFormat::kMxfp4;
    const auto pick = [&](const IntegerDots* dots) {
      return dots == nullptr ? nullptr : (is_mxfp4 ? dots->mxfp4 : dots->nvfp4) + (planes - 2);
    };
    return {is_mxfp4 ? floats->mxfp4 : floats->nvfp4, floats->lanes, pick(few), pick(many),
            streaming == nullptr ? cpu::streaming() : *streaming};
  }
};
constexpr int64_t kManyRows = 3;
constexpr int kMostCallRows = 32;  // of a call of any kernel

// NOLINTBEGIN(readability-identifier-naming): constants, though not constexpr here
// One for each instruction set; empty where the compiler's target has no such instructions.
#define OCTET_ISA(name, runs_on, which_has, here) extern const PanelDot kPanelDot##name;
#include "cpu/isa.inc"
#undef OCTET_ISA
extern const FloatDots kFloatDotsAvx2, kFloatDotsPortable;
extern const IntegerDots kDigitDotsAvx512Vbmi, kDigitDotsAvx512Vnni, kDigitDotsAvx512,
    kDigitDotsAvxVnni;
extern const IntegerDots kDigitDotsAvx2, kWordDotsAvx2;
extern const IntegerDots kDigitDotsNeonI8mm, kDigitDotsNeonDotprod;
// NOLINTEND(readability-identifier-naming)

// Whether this machine has the instructions, and its operating system keeps their registers.
bool has_avx512_vnni();
bool has_avx512_vbmi();  // and VNNI
bool has_avx512();
bool has_avx_vnni();
bool has_avx2();  // and FMA, F16C
bool has_neon_i8mm();
bool has_neon_dotprod();

// A row of isa.inc.
struct IsaInfo {
  std::string_view runs_on, which_has;
  bool (*is_here)();
  const PanelDot* dot;
};
std::span<const IsaInfo> isas();
// The best that this machine has.
const PanelDot& best_panel_dot();

}  // namespace octet::cpu
