// SPDX-License-Identifier: Apache-2.0
// A whole layer in float64 with intervals, expert by expert, each weight row decoded once.
#include "reference/layer.h"

#include <algorithm>
#include <utility>

#include "formats/bf16.h"
#include "formats/mxfp8.h"
#include "reference/decode.h"
#include "reference/hidden.h"
#include "reference/product.h"
#include "reference/reference.h"
#include "reference/swiglu.h"

namespace octet::reference {
namespace {

using Row = std::vector<Span>;

// x as the GEMMs read it, a token a row.
std::vector<Activation> rows_of_x(const LayerArgs& args) {
  const int64_t hidden = args.spec.hidden;
  const bool mxfp8 = args.spec.activations == Activations::kMxfp8;
  std::vector<uint8_t> codes(mxfp8 ? args.tokens * hidden : 0);
  std::vector<uint8_t> scales(mxfp8 ? args.tokens * (hidden / kMxBlock) : 0);
  if (mxfp8) {
    mxfp8_quantize(
        {args.x, args.tokens, hidden, ScaleLayout::kLinear, codes.data(), scales.data()});
  }
  std::vector<Activation> rows(args.tokens);
  for (int64_t i = 0; i < args.tokens * hidden; ++i) {
    rows[i / hidden].value.push_back(mxfp8 ? mxfp8_value(codes[i], scales[i / kMxBlock])
                                           : formats::bf16_to_f32(args.x[i]));
  }
  if (!mxfp8) {
    for (Activation& row : rows) hold_as_fixed_point(row, scale_block(args.spec.weights), 0);
  }
  return rows;
}

void decode(const layouts::WeightView& w, int64_t row, std::vector<double>& out) {
  out.resize(w.cols);
  decode_row(
      w.format, w.codes + row * w.code_stride, w.first_col, w.cols,
      [&](int64_t b) { return w.scales[row * w.scale_stride + b]; }, out.data());
}

// One matrix with its factor and bias.
struct Linear {
  const layouts::WeightView& w;
  double factor;
  layouts::BiasView bias;
  Sums sums;

  Span operator()(const Activation& a, const std::vector<double>& decoded, int64_t row) const {
    const double b = bias.data ? formats::bf16_to_f32(bias.data[row * bias.stride]) : 0.0F;
    return shifted(scaled(product(a, decoded.data(), sums), factor), b);
  }
};

// The work of one expert: its weights, the slots that chose it, their rows of x.
struct ExpertWork {
  const LayerArgs& args;
  HiddenVerdict& verdict;
  const LayerSpec& spec;
  layouts::ExpertWeights w;
  std::vector<const Activation*> x;   // of each slot
  const std::vector<int64_t>& slots;  // t * k + j
};

// h before its rounding, a slot a row.
std::vector<Row> hidden_rows(const ExpertWork& work) {
  const Linear up{work.w.up, work.w.up_alpha, work.w.up_bias, work.args.sums};
  const Linear gate{work.w.gate, work.w.gate_alpha, work.w.gate_bias, work.args.sums};
  Swiglu act = work.spec.swiglu;
  act.limit = work.w.limit;
  std::vector<Row> h(work.x.size(), Row(up.w.rows));
  std::vector<double> up_row;
  std::vector<double> gate_row;
  for (int64_t c = 0; c < up.w.rows; ++c) {
    decode(up.w, c, up_row);
    decode(gate.w, c, gate_row);
    for (size_t s = 0; s < h.size(); ++s) {
      h[s][c] = swiglu(up(*work.x[s], up_row, c), gate(*work.x[s], gate_row, c), act);
    }
  }
  return h;
}

// The h that a kernel made for one slot, judged.
std::vector<double> made_hidden(const ExpertWork& work, const Row& h, int64_t slot) {
  const MadeHidden& made = *work.args.made;
  const int64_t row = made.permuted[slot];
  const int64_t columns = work.spec.intermediate;
  const ReportElement report = [&](const JudgedElement& e) {
    HiddenVerdict& v = work.verdict;
    ++v.num_elems;
    if (e.right) return;
    if (v.num_outside++ == 0) v = {v.num_elems, 1, slot, e.column, e.got, e.want};
  };
  return work.spec.activations == Activations::kMxfp8
             ? judge_h_mxfp8(h, made.values + row * columns,
                             made.scales + row * ceil_div(columns, kMxBlock), report)
             : judge_h_bf16(h, made.rounded + row * columns, report);
}

// h as the second GEMM reads it: through MXFP8, or rounded once to BF16; the kernel's own if it is given.
Activation rounded_hidden(const ExpertWork& work, const Row& h, int64_t slot) {
  const bool mxfp8 = work.spec.activations == Activations::kMxfp8;
  Activation a;
  if (work.args.made != nullptr) {
    a.value = made_hidden(work, h, slot);
  } else if (mxfp8) {
    a = activation_of(h_mxfp8(h));
  } else {
    Row rounded;
    for (const Span& s : h) rounded.push_back(bf16_round(s));
    a = activation_of(rounded);
  }
  const int64_t block = scale_block(work.w.down.format);
  if (!mxfp8) hold_as_fixed_point(a, block, work.w.down.first_col % block);
  return a;
}

// The expert's output rows, rounded to BF16; the interval also holds the row that was not rounded.
std::vector<Row> output_rows(const ExpertWork& work) {
  std::vector<Activation> h;
  for (const Row& row : hidden_rows(work)) {
    h.push_back(rounded_hidden(work, row, work.slots[h.size()]));
  }
  const Linear down{work.w.down, work.w.down_alpha, work.w.down_bias, work.args.sums};
  std::vector<Row> out(h.size(), Row(down.w.rows));
  std::vector<double> down_row;
  for (int64_t n = 0; n < down.w.rows; ++n) {
    decode(down.w, n, down_row);
    for (size_t s = 0; s < h.size(); ++s) {
      const Span y = down(h[s], down_row, n);
      const double slack = bf16_half_ulp(y.value);
      out[s][n] = {bf16_round(y.value), y.lo - slack, y.hi + slack};
    }
  }
  return out;
}

// The weighted sum of a token's rows at one column, plus the shared experts' value, rounded once.
Span finalized(const LayerArgs& args, const std::vector<Row>& rows, int64_t t, int64_t c) {
  Span sum;
  double mass = 0;
  for (int64_t slot = t * args.top_k; slot < (t + 1) * args.top_k; ++slot) {
    if (rows[slot].empty()) continue;
    const double w = args.topk_weights[slot];
    const double a = w * rows[slot][c].lo;
    const double b = w * rows[slot][c].hi;
    sum.value += w * rows[slot][c].value;
    sum.lo += least(a, b);
    sum.hi += greatest(a, b);
    mass += greatest(std::fabs(a), std::fabs(b));
  }
  const double shared =
      args.shared != nullptr ? formats::bf16_to_f32(args.shared[t * args.spec.hidden + c]) : 0.0F;
  const double eps =
      static_cast<double>(args.top_k + 3) * kUnitRoundoff * (mass + std::fabs(shared));
  return bf16_round(Span{sum.value + shared, sum.lo + shared - eps, sum.hi + shared + eps});
}

// The slots of each of this rank's experts.
std::vector<std::vector<int64_t>> slots_by_expert(const LayerArgs& args) {
  std::vector<std::vector<int64_t>> slots(args.spec.local_experts);
  for (int64_t slot = 0; slot < args.tokens * args.top_k; ++slot) {
    const int64_t e = int64_t{args.topk_ids[slot]} - args.spec.first_expert;
    if (e >= 0 && e < args.spec.local_experts) slots[e].push_back(slot);
  }
  return slots;
}

}  // namespace

std::vector<Span> layer(const LayerArgs& args, const Progress& progress, HiddenVerdict* verdict) {
  HiddenVerdict own_verdict;
  const std::vector<Activation> x = rows_of_x(args);
  const std::vector<std::vector<int64_t>> slots = slots_by_expert(args);
  std::vector<Row> rows(args.tokens * args.top_k);  // empty: not of this rank
  const int64_t total =
      args.spec.local_experts - std::count(slots.begin(), slots.end(), std::vector<int64_t>{});
  int64_t done = 0;
  for (int64_t e = 0; e < args.spec.local_experts; ++e) {
    if (slots[e].empty()) continue;
    ExpertWork work{
        args, verdict != nullptr ? *verdict : own_verdict, args.spec, args.expert(e), {}, slots[e]};
    for (const int64_t slot : slots[e]) work.x.push_back(&x[slot / args.top_k]);
    std::vector<Row> out = output_rows(work);
    for (size_t s = 0; s < out.size(); ++s) rows[slots[e][s]] = std::move(out[s]);
    if (progress) progress(++done, total);
  }
  std::vector<Span> y;
  for (int64_t i = 0; i < args.tokens * args.spec.hidden; ++i) {
    y.push_back(finalized(args, rows, i / args.spec.hidden, i % args.spec.hidden));
  }
  return y;
}

}  // namespace octet::reference
