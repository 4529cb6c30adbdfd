// SPDX-License-Identifier: Apache-2.0
// The two products of the experts over runs of rows that share an expert: what the layer (experts.h), gemm1, gemm2 and
// grouped_moe are made of. They differ in where rows come from and in what becomes of h.
//
//   x rows f32 ──► gate_up ──► h f32 ──► finish (quantise or round, 32 columns of a row at a time) ──► down ──► y rows bf16
//
// A unit of work is one run times 32 columns of h (four gate_up panels), or times 16 down panels: each panel is read from
// memory once, all the run's rows go through it, as many at a time as their kernel takes. A row's numbers do not depend on the others.
// Rounding: panel_dot.h; then factor and bias a rounding each, SwiGLU (activation.h), y once to BF16.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "core/executor.h"
#include "cpu/experts.h"
#include "cpu/integer_rows.h"
#include "cpu/quantize.h"
#include "formats/bf16.h"

namespace octet::cpu {

// What both products read.
struct ProductArgs {
  const PanelSource* weights;
  RowDot dot;
  std::span<const ExpertRun> runs;
  const float* const*
      x;  // [rows] activations, num_blocks * G floats each, zero where the panel has padding
  const uint8_t* const* integers;  // [rows] the same as integers, where hold says so
  const Hold* hold;                // [rows]
  std::byte* scratch =
      nullptr;  // [num_threads] times panel_scratch_stride(*weights), 64-byte aligned
};

inline int64_t panel_scratch_stride(const PanelSource& weights) {
  return round_up(weights.scratch_bytes(), layouts::kPanelAlignment);
}
inline uint8_t* panel_scratch(const ProductArgs& args, int worker) {
  return reinterpret_cast<uint8_t*>(args.scratch) + worker * panel_scratch_stride(*args.weights);
}

struct HiddenArgs {
  int64_t intermediate;             // I
  float alpha = 1.0F, beta = 0.0F;  // of SwiGLU; the limit is the expert's
  float* const* h;  // [rows] out, `width` floats each: column c at start + c, zeros around
  int64_t start = 0, width;
};

inline const IntegerDot& integer_dot(const ProductArgs& args, const ExpertRun& run) {
  return takes_many(args.dot, run) ? *args.dot.many : *args.dot.few;
}

// How many of a run's rows from `row` on one call of a kernel takes: all are held alike, and `exact` takes one.
inline int64_t rows_together(const ProductArgs& args, const ExpertRun& run, int64_t row) {
  const Hold hold = args.hold[row];
  if (hold == Hold::kExact) return 1;
  const int64_t most = hold == Hold::kIntegers ? integer_dot(args, run).most_rows : kMostFloatRows;
  const int64_t left = run.first + run.count - row;
  const int64_t even = ceil_div(left, ceil_div(left, most));  // each call decodes the weights anew
  int64_t count = 1;
  while (count < even && args.hold[row + count] == hold) ++count;
  return count;
}

inline float unhold(const ProductArgs& args, Hold hold) {
  if (hold == Hold::kNone) return 1.0F;
  return hold == Hold::kIntegers ? digit_gain(args.weights->sizes().format) : 1.0F / kMxfp8Hold;
}

// Panels read abreast, up to kMostPanels, each of num_blocks blocks: those of numbers first, first + apart, ...
struct Panels {
  std::span<const PanelStream> streams;
  int64_t num_blocks;
  int64_t first, apart;
  int64_t number(size_t stream) const { return first + static_cast<int64_t>(stream) * apart; }
};

// The sums of `count` of a run's rows, from `row` on, with the panels: acc [panels, count, 16].
inline void multiply_rows(const ProductArgs& args, const ExpertRun& run, const Panels& panels,
                          int64_t row, int count, float* acc) {
  if (args.hold[row] == Hold::kIntegers) {
    integer_dot(args, run).dot(panels.streams, panels.num_blocks, args.integers + row, count, acc);
    return;
  }
  const FloatDot& floats = args.dot.floats;
  const PanelDotFn dot = args.hold[row] == Hold::kExact ? floats.exact : floats.dot;
  for (const PanelStream& stream : panels.streams) {
    dot(stream.panel, panels.num_blocks, args.x + row, count, acc);
    acc += count * layouts::kPanelRows;
  }
}

// A row's sums with the 16 lanes of a panel; times `unhold` they are those of x.
struct LaneSums {
  float* acc;  // [16]
  float unhold;
  // Before a factor is multiplied with `unhold`: where that would be infinite, the sums are instead.
  void make_room(float factor) {
    if (std::fabs(factor) * unhold <= std::numeric_limits<float>::max()) return;
    for (int64_t i = 0; i < layouts::kPanelRows; ++i) acc[i] *= unhold;
    unhold = 1.0F;
  }
};

// fn(which of the panels, row, LaneSums) for the run's rows times the panels.
template <class Fn>
void multiply_panels(const ProductArgs& args, const ExpertRun& run, const Panels& panels,
                     const Fn& fn) {
  const int64_t end = run.first + run.count;
  for (int64_t row = run.first, count = 0; row < end; row += count) {
    float acc[kMostPanels * kMostCallRows * layouts::kPanelRows];
    count = rows_together(args, run, row);
    multiply_rows(args, run, panels, row, static_cast<int>(count), acc);
    float* sums = acc;
    for (size_t p = 0; p < panels.streams.size(); ++p) {
      for (int64_t i = 0; i < count; ++i, sums += layouts::kPanelRows)
        fn(p, row + i, LaneSums{sums, unhold(args, args.hold[row])});
    }
  }
}

// One of the two products: `unit_panels` panels of an expert are a unit of work.
struct Product {
  const uint8_t* (PanelSource::*panel)(int64_t expert, int64_t panel, uint8_t* scratch) const;
  int64_t panels, panel_bytes, num_blocks;  // of an expert
  int64_t unit_panels;
  int64_t units() const { return ceil_div(panels, unit_panels); }  // of an expert
};

// fn(run, its expert's parameters, panels) for all panels of each run, then done(run, first panel, end) for each unit.
template <class Fn, class Done>
void stream_panels(const ProductArgs& args, const Product& product, Executor& executor,
                   const Fn& fn, const Done& done) {
  const int64_t units = product.units();  // a run
  const bool in_memory = args.weights->scratch_bytes() == 0;
  const Streaming& how = args.dot.streaming;
  const int64_t abreast = in_memory ? how.panels : 1;
  const auto run_of = [&](int64_t unit) -> const ExpertRun& {
    return args.runs[static_cast<size_t>(unit / units)];
  };
  const auto first_panel = [&](int64_t unit) { return unit % units * product.unit_panels; };
  parallel_streams(
      executor, std::ssize(args.runs) * units, [&](int64_t unit, int64_t next, int worker) {
        const ExpertRun& run = run_of(unit);
        const int64_t first = first_panel(unit);
        const int64_t end = std::min(first + product.unit_panels, product.panels);
        const ExpertParams params = args.weights->params(run.expert);
        uint8_t* const scratch = panel_scratch(args, worker);
        const auto panel = [&](int64_t u, int64_t p) {
          return (args.weights->*product.panel)(run_of(u).expert, p, scratch);
        };
        // Each part of the unit, `part` panels, is a stream.
        const int64_t part = ceil_div(end - first, abreast);
        // Where a stream goes on after its `i`-th panel, at `data`.
        const auto after = [&](int64_t stream, int64_t i, const uint8_t* data) {
          // Made anew in the same place: nothing to fetch ahead, so its own beginning.
          if (!in_memory) return data;
          if (i + 1 < part) return data + product.panel_bytes;
          if (next < 0) return data;
          const int64_t p = first_panel(next);
          const int64_t count = std::min(product.unit_panels, product.panels - p);
          return panel(next, p + std::min(stream * ceil_div(count, abreast), count - 1));
        };
        for (int64_t i = 0; i < part; ++i) {
          PanelStream streams[kMostPanels];
          size_t count = 0;
          for (int64_t p = first + i; p < end; p += part, ++count) {
            const uint8_t* const data = panel(unit, p);
            const uint8_t* const panel_end = data + product.panel_bytes;
            const uint8_t* const then = after(static_cast<int64_t>(count), i, data);
            streams[count] = {data, {panel_end, then - panel_end, how.bytes, how.into_first}};
          }
          fn(run, params,
             Panels{std::span(streams).first(count), product.num_blocks, first + i, part});
        }
        done(run, first, end);
      });
}

// Biases of lanes, in binary32; null if there are none. `from` counts outputs from `first` on.
struct LaneBiases {
  float values[layouts::kPanelRows];
  const float* load(const layouts::BiasView& from, int64_t first, int64_t count) {
    if (from.data == nullptr) return nullptr;
    for (int64_t i = 0; i < count; ++i)
      values[i] = formats::bf16_to_f32(from.data[(first + i) * from.stride]);
    std::fill(values + count, std::end(values), 0.0F);
    return values;
  }
};

inline void zero_around_hidden(const HiddenArgs& args, float* h) {
  std::fill(h, h + args.start, 0.0F);
  std::fill(h + args.start + args.intermediate, h + args.width, 0.0F);
}

// h of every row, then finish(row, col, count) for each 32 columns (the last may be fewer), in any order of rows and
// columns, from any thread; h + start + col is that thread's own then.
template <class Finish>
void gate_up(const ProductArgs& args, const HiddenArgs& hidden, Executor& executor,
             const Finish& finish) {
  constexpr int64_t kPanelCols = kHiddenLanes;
  const layouts::PanelSizes& sizes = args.weights->sizes();
  const Product product{&PanelSource::gate_up_panel, sizes.gate_up_panels,
                        sizes.gate_up_panel_bytes(), sizes.gate_up_blocks, kMxBlock / kPanelCols};
  stream_panels(
      args, product, executor,
      [&](const ExpertRun& run, const ExpertParams& params, const Panels& panels) {
        struct {
          int64_t col, count;
          LaneBiases gate_bias, up_bias;
          HiddenLanes lanes;
        } outputs[kMostPanels];
        for (size_t p = 0; p < panels.streams.size(); ++p) {
          auto& o = outputs[p];
          o.col = panels.number(p) * kPanelCols;
          o.count = std::min(kPanelCols, hidden.intermediate - o.col);
          o.lanes = {.gate_bias = o.gate_bias.load(params.gate_bias, o.col, o.count),
                     .up_bias = o.up_bias.load(params.up_bias, o.col, o.count),
                     .swiglu = {params.limit, hidden.alpha, hidden.beta}};
        }
        multiply_panels(args, run, panels, [&](size_t p, int64_t row, LaneSums sums) {
          auto& o = outputs[p];
          sums.make_room(std::max(std::fabs(params.gate_alpha), std::fabs(params.up_alpha)));
          o.lanes.gate_factor = params.gate_alpha * sums.unhold;
          o.lanes.up_factor = params.up_alpha * sums.unhold;
          float h[kHiddenLanes];
          args.dot.lanes->hidden(o.lanes, sums.acc, h);
          std::copy_n(h, o.count, hidden.h[row] + hidden.start + o.col);
        });
      },
      [&](const ExpertRun& run, int64_t first, int64_t end) {
        const int64_t col = first * kPanelCols;
        const int64_t count = std::min(end * kPanelCols, hidden.intermediate) - col;
        for (int64_t row = run.first; row < run.first + run.count; ++row) {
          if (first == 0) zero_around_hidden(hidden, hidden.h[row]);
          finish(row, col, count);
        }
      });
}

// y[row] [H] of every row, args.x being h.
void down(const ProductArgs& args, int64_t hidden, Bf16* const* y, Executor& executor);

// ---- rows of activations in binary32, exact; in pieces over all threads

struct Bf16Rows {
  const Bf16* x;  // [rows, width]
  int64_t rows, width;
};
// `padded` floats each, zeros from `width` on.
void widen_bf16(const Bf16Rows& from, int64_t padded, float* out, Executor& executor);

struct Mxfp8Rows {
  const uint8_t* codes;   // [rows, width]
  const uint8_t* scales;  // [rows, width / 32]
  int64_t rows, width;
};
// out [rows, width]; hold [rows].
void widen_mxfp8(const Mxfp8Rows& from, float* out, Hold* hold, Executor& executor);

}  // namespace octet::cpu
