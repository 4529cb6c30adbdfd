// SPDX-License-Identifier: Apache-2.0
#include "cpu/experts.h"

#include <cmath>
#include <gtest/gtest.h>
#include <thread>

#include "cpu/test_layer.h"
#include "cpu/thread_pool.h"
#include "formats/e4m3.h"
#include "formats/mxfp8.h"

namespace octet::cpu {
namespace {

using layouts::BiasView;
using layouts::ExpertWeights;
using layouts::WeightView;

// ---- the truth: double loops over ExpertWeights, each stage from what the call itself put into the one before

struct Interval {
  double value, room;
};

double bias_at(const BiasView& b, int64_t i) {
  return b.data == nullptr ? 0 : static_cast<double>(formats::bf16_to_f32(b.data[i * b.stride]));
}

// A row of activations, and how far integers may be from each number: those of x, and of h under `exact`, are of three planes.
struct Activation {
  std::vector<double> value, room;
};
double distance_to_grid(double v, double unit) {
  return std::fabs(v - std::nearbyint(v / unit) * unit);
}
// `start`: which element of its scale block the first one is.
Activation bf16_activation(std::vector<double> x, int64_t block, int64_t start,
                           Precision precision) {
  Activation a{std::move(x), {}};
  a.room.resize(a.value.size());
  for (size_t first = 0, end = 0; first < a.value.size(); first = end) {
    end = std::min(first + static_cast<size_t>(first == 0 ? block - start : block), a.value.size());
    double amax = 0;
    for (size_t k = first; k < end; ++k) amax = std::max(amax, std::fabs(a.value[k]));
    if (amax == 0 || !std::isfinite(amax)) continue;
    const int exponent = std::ilogb(amax);
    const double top = std::ldexp(1.0, exponent - 14);
    const double unit = precision == Precision::kExact ? std::ldexp(1.0, exponent - 21)
                        : amax > 32639 * top           ? 2 * top
                                                       : top;
    for (size_t k = first; k < end; ++k) a.room[k] = distance_to_grid(a.value[k], unit);
  }
  return a;
}

// alpha * (row of w times x) + bias, with the bound of a sum and a rounding for each of the two.
Interval product(const WeightView& w, int64_t row, const Activation& x, float alpha, double bias) {
  double sum = 0, mass = 0, held = 0;
  for (int64_t k = 0; k < w.cols; ++k) {
    const auto weight = static_cast<double>(w.value(row, k));
    const double p = weight * x.value[static_cast<size_t>(k)];
    sum += p;
    mass += std::fabs(p);
    if (!x.room.empty()) held += std::fabs(weight) * x.room[static_cast<size_t>(k)];
  }
  const double a = static_cast<double>(alpha);
  return {a * sum + bias, (static_cast<double>(w.cols + 3) * 0x1p-24 * mass + held) * std::fabs(a) +
                              0x1p-23 * (std::fabs(a * sum) + std::fabs(bias))};
}

double swiglu_f64(double up, double gate, double limit, const Swiglu& s) {
  const double u = std::clamp(up, -limit, limit);
  const double g = std::min(gate, limit);
  return (u + static_cast<double>(s.beta)) * g / (1 + std::exp(-static_cast<double>(s.alpha) * g));
}

// The least and greatest h over the corners of both intervals, widened by the steps' roundings.
std::pair<double, double> hidden_span(Interval up, Interval gate, double limit, const Swiglu& s) {
  double lo = INFINITY, hi = -INFINITY;
  for (const double du : {-up.room, up.room}) {
    for (const double dg : {-gate.room, gate.room}) {
      const double h = swiglu_f64(up.value + du, gate.value + dg, limit, s);
      lo = std::min(lo, h);
      hi = std::max(hi, h);
    }
  }
  const double slack =
      (8 + std::fabs(gate.value)) * 0x1p-23 * std::max(std::fabs(lo), std::fabs(hi));
  return {lo - slack, hi + slack};
}

double from_bf16(Bf16 v) { return static_cast<double>(formats::bf16_to_f32(v)); }
double round_to_bf16(double v) { return from_bf16(formats::bf16_from_f64(v)); }
double from_mxfp8(uint8_t code, uint8_t scale) {
  return std::ldexp(static_cast<double>(formats::e4m3_to_f32(code)), scale - 127);
}

// Compares one call with the truth.
class Judge {
 public:
  Judge(const TestLayer& layer, const std::vector<Bf16>& x, const std::vector<int32_t>& ids,
        int64_t top_k, const ExpertsOutput& out)
      : layer_(layer), spec_(layer.spec()), x_(x), ids_(ids), top_k_(top_k), out_(out) {}

  void judge() const {
    EXPECT_TRUE(out_.guards_intact);
    std::vector<int64_t> order;  // slots of this rank by expert, then by slot
    for (int64_t e = 0; e < spec_.local_experts; ++e) {
      for (int64_t s = 0; s < std::ssize(ids_); ++s)
        if (ids_[static_cast<size_t>(s)] == spec_.first_expert + e) order.push_back(s);
    }
    std::vector<int32_t> permuted(ids_.size(), -1);
    for (size_t row = 0; row < order.size(); ++row)
      permuted[static_cast<size_t>(order[row])] = static_cast<int32_t>(row);
    ASSERT_EQ(out_.permuted, permuted);
    for (size_t row = 0; row < order.size(); ++row) {
      const int64_t slot = order[row];
      const auto e = static_cast<size_t>(ids_[static_cast<size_t>(slot)] - spec_.first_expert);
      const auto r = static_cast<int64_t>(row);
      judge_row(r, layer_.experts[e],
                judge_hidden(r, layer_.experts[e], activations(slot / top_k_)));
    }
    for (size_t i = order.size() * static_cast<size_t>(spec_.hidden); i < out_.rows.size(); ++i)
      ASSERT_EQ(out_.rows[i].bits, 0xFFFF) << "a row that no slot has was written";
  }

 private:
  bool mxfp8() const { return spec_.activations == Activations::kMxfp8; }

  Activation activations(int64_t token) const {
    std::vector<double> x;
    for (int64_t c = 0; c < spec_.hidden; ++c) {
      const auto i = static_cast<size_t>(token * spec_.hidden + c);
      x.push_back(mxfp8() ? from_mxfp8(out_.x_quant[i], out_.x_scale[i / kMxBlock])
                          : from_bf16(x_[i]));
    }
    return mxfp8() ? Activation{x, {}}
                   : bf16_activation(x, scale_block(spec_.weights), 0, Precision::kExact);
  }

  // Row `row` of h, judged; what GEMM2 reads.
  Activation judge_hidden(int64_t row, const ExpertWeights& e, const Activation& x) const {
    std::vector<double> h, least, most;
    for (int64_t c = 0; c < spec_.intermediate; ++c) {
      const auto [lo, hi] =
          hidden_span(product(e.up, c, x, e.up_alpha, bias_at(e.up_bias, c)),
                      product(e.gate, c, x, e.gate_alpha, bias_at(e.gate_bias, c)),
                      static_cast<double>(e.limit), spec_.swiglu);
      least.push_back(lo);
      most.push_back(hi);
    }
    if (!mxfp8()) {
      for (int64_t c = 0; c < spec_.intermediate; ++c) {
        h.push_back(from_bf16(out_.h[static_cast<size_t>(row * spec_.intermediate + c)]));
        EXPECT_GE(h.back(), round_to_bf16(least[static_cast<size_t>(c)])) << row << ", " << c;
        EXPECT_LE(h.back(), round_to_bf16(most[static_cast<size_t>(c)])) << row << ", " << c;
      }
      return bf16_activation(h, e.down.block(), e.down.start_in_block(), spec_.precision);
    }
    for (int64_t c = 0; c < spec_.intermediate; ++c) {
      const uint8_t scale = out_.h_scales[static_cast<size_t>(
          row * ceil_div(spec_.intermediate, kMxBlock) + c / kMxBlock)];
      if (c % kMxBlock == 0) judge_scale(scale, least, most, c);
      const auto code = [&](double v) {  // E4M3 under this scale; binary32 is near enough to a tie
        return from_mxfp8(formats::e4m3_from_f32(static_cast<float>(std::ldexp(v, 127 - scale))),
                          scale);
      };
      h.push_back(
          from_mxfp8(out_.h_values[static_cast<size_t>(row * spec_.intermediate + c)], scale));
      EXPECT_GE(h.back(), code(least[static_cast<size_t>(c)])) << row << ", " << c;
      EXPECT_LE(h.back(), code(most[static_cast<size_t>(c)])) << row << ", " << c;
    }
    return {h, {}};
  }

  void judge_scale(uint8_t scale, const std::vector<double>& least, const std::vector<double>& most,
                   int64_t first) const {
    double lo = 0, hi = 0;  // of the block's largest magnitude
    for (int64_t c = first; c < std::min(first + kMxBlock, spec_.intermediate); ++c) {
      const double a = least[static_cast<size_t>(c)], b = most[static_cast<size_t>(c)];
      lo = std::max(lo, a > 0 ? a : b < 0 ? -b : 0.0);
      hi = std::max({hi, std::fabs(a), std::fabs(b)});
    }
    EXPECT_GE(scale, formats::h_scale_code(static_cast<float>(lo))) << first;
    EXPECT_LE(scale, formats::h_scale_code(static_cast<float>(hi))) << first;
  }

  void judge_row(int64_t row, const ExpertWeights& e, const Activation& h) const {
    for (int64_t c = 0; c < spec_.hidden; ++c) {
      const Interval want = product(e.down, c, h, e.down_alpha, bias_at(e.down_bias, c));
      const double got = from_bf16(out_.rows[static_cast<size_t>(row * spec_.hidden + c)]);
      EXPECT_GE(got, round_to_bf16(want.value - want.room)) << row << ", " << c;
      EXPECT_LE(got, round_to_bf16(want.value + want.room)) << row << ", " << c;
    }
  }

  const TestLayer& layer_;
  const LayerSpec& spec_;
  const std::vector<Bf16>& x_;
  const std::vector<int32_t>& ids_;
  int64_t top_k_;
  const ExpertsOutput& out_;
};

void expect_right(const TestLayerShape& shape, int64_t tokens, int64_t top_k, float size = 1.0F) {
  TestLayer layer(shape);
  const auto x = layer.random_x(tokens, size);
  const auto ids = layer.random_ids(tokens, top_k);
  ThreadPool pool(2);
  for (const PanelDot* dot : {&kPanelDotPortable, &best_panel_dot()}) {
    const ExpertsOutput out = run_layer(layer, x, ids, top_k, *dot, pool);
    Judge(layer, x, ids, top_k, out).judge();
  }
}

constexpr Activations kActivations[] = {Activations::kBf16, Activations::kMxfp8};
constexpr WeightFormat kFormats[] = {WeightFormat::kMxfp4, WeightFormat::kNvfp4};

TEST(Experts, AreRightForBothFormatsAndActivations) {
  for (const WeightFormat weights : kFormats) {
    for (const Activations activations : kActivations) {
      expect_right({.weights = weights, .activations = activations, .swiglu = {.limit = 10}}, 5, 3);
    }
  }
}

// Ranks' parts of h that are no multiple of anything, and that begin inside a scale block.
TEST(Experts, TakeAnyCutOfTheIntermediate) {
  struct Cut {
    int64_t intermediate, start;
  };
  for (const Cut cut : {Cut{40, 8}, Cut{45, 13}, Cut{80, 0}, Cut{232, 24}, Cut{464, 16},
                        Cut{576, 0}, Cut{720, 16}, Cut{1, 31}}) {
    for (const Activations activations : kActivations) {
      expect_right({.activations = activations,
                    .hidden = 64,
                    .intermediate = cut.intermediate,
                    .experts = 2,
                    .start = cut.start},
                   2, 2);
    }
    expect_right({.weights = WeightFormat::kNvfp4,
                  .hidden = 64,
                  .intermediate = cut.intermediate,
                  .experts = 2,
                  .start = cut.start % kNvBlock},
                 2, 2);
  }
}

TEST(Experts, TakeAnyHidden) {
  for (const int64_t hidden : {32, 96, 160})
    expect_right({.hidden = hidden, .intermediate = 40}, 3, 2);
}

TEST(Experts, ApplyBiasesAlphaAndBetaAsGptOss) {
  expect_right({.intermediate = 80, .biases = true, .swiglu = {7.0F, 1.702F, 1.0F}}, 4, 3);
  expect_right({.weights = WeightFormat::kNvfp4, .intermediate = 80, .biases = true}, 4, 3);
}

TEST(Experts, SkipIdsOfOtherRanks) {
  expect_right({.first_expert = 5}, 6, 4);
  TestLayer layer({.first_expert = 5});
  const auto x = layer.random_x(2);
  InlineExecutor one;
  const std::vector<int32_t> ids = {-1, 4, 9, 100, -2147483647, 0};
  const auto out = run_layer(layer, x, ids, 3, best_panel_dot(), one);
  EXPECT_EQ(out.permuted, std::vector<int32_t>(6, -1));
  EXPECT_TRUE(out.guards_intact);
  for (const Bf16 v : out.rows) ASSERT_EQ(v.bits, 0xFFFF);
}

TEST(Experts, TakeARepeatedIdTwice) {
  TestLayer layer({});
  const auto x = layer.random_x(2);
  InlineExecutor one;
  const std::vector<int32_t> ids = {2, 2, 1, 2};
  const auto out = run_layer(layer, x, ids, 2, best_panel_dot(), one);
  Judge(layer, x, ids, 2, out).judge();
}

// A scale block of down's that meets two MXFP8 blocks of h, one 2^20 times the other: integers would lose the smaller one.
TEST(Experts, LoseNothingWhereACutMakesTwoScalesOfHMeetInABlock) {
  for (const WeightFormat weights : kFormats) {
    TestLayer layer({.weights = weights,
                     .activations = Activations::kMxfp8,
                     .hidden = 32,
                     .intermediate = 48,
                     .experts = 1,
                     .start = scale_block(weights) / 2,
                     .biases = true});
    auto& e = layer.experts[0];
    e.gate_alpha = e.up_alpha = 0x1p-20F;  // gate and up are their biases, nearly
    for (const layouts::WeightView* w : {&e.gate, &e.up})
      std::fill_n(const_cast<uint8_t*>(w->codes), w->rows * w->code_stride, uint8_t{0});
    for (int64_t c = 0; c < 48; ++c) {
      const_cast<Bf16*>(e.gate_bias.data)[c * e.gate_bias.stride] = formats::bf16_from_f32(64.0F);
      const_cast<Bf16*>(e.up_bias.data)[c * e.up_bias.stride] =
          formats::bf16_from_f32((c < 32 ? 1.0F : 0x1p20F) + static_cast<float>(c % 5) / 8.0F);
    }
    for (int64_t row = 0; row < 32; ++row) {  // what is large meets weights of 0 in every other row
      for (int64_t c = e.down.first_col + 32; c < e.down.first_col + 48 && row % 2 == 0; ++c) {
        uint8_t& pair = const_cast<uint8_t*>(e.down.codes)[row * e.down.code_stride + c / 2];
        pair = static_cast<uint8_t>(c % 2 == 0 ? pair & 0xF0 : pair & 0x0F);
      }
    }
    layer.pack();
    const auto x = layer.random_x(4);
    InlineExecutor one;
    const auto out = run_layer(layer, x, {0, 0, 0, 0}, 1, best_panel_dot(), one);
    EXPECT_GT(out.h_scales[1], out.h_scales[0] + 15);
    Judge(layer, x, {0, 0, 0, 0}, 1, out).judge();
  }
}

// Factors that bring tiny sums back; with what NVFP4's scales take off beside them they are above binary32's largest number.
TEST(Experts, ApplyTheLargestFactors) {
  TestLayer layer({.weights = WeightFormat::kNvfp4});
  for (const float sign : {1.0F, -1.0F}) {
    for (auto& e : layer.experts) e.gate_alpha = e.down_alpha = sign * 0x1.8p72F;
    layer.pack();
    const auto x = layer.random_x(2, 0x1p-50F);
    const auto ids = layer.random_ids(2, 3);
    InlineExecutor one;
    for (const PanelDot* dot : {&kPanelDotPortable, &best_panel_dot()})
      Judge(layer, x, ids, 3, run_layer(layer, x, ids, 3, *dot, one)).judge();
  }
}

TEST(Experts, TakeAnyNumberOfTokens) {
  for (const int64_t tokens : {0, 1, 9, 100}) {
    for (const Activations activations : kActivations)
      expect_right({.activations = activations, .hidden = 32, .intermediate = 40}, tokens, 3);
  }
}

TEST(Experts, HoldSmallAndLargeActivations) {
  for (const float size : {1e-6F, 1e7F}) {
    for (const Activations activations : kActivations)
      expect_right({.activations = activations, .intermediate = 64}, 2, 2, size);
  }
}

// One expert, K = 96: three blocks, a group that is not full.
TEST(Experts, ReadNoScaleBehindTheLast) {
  expect_right({.hidden = 96, .intermediate = 96, .experts = 1}, 1, 1);
}

TEST(Experts, GiveARowTheSameBytesAloneAndAtEveryPlace) {
  for (const WeightFormat weights : kFormats) {
    for (const Activations activations : kActivations) {
      TestLayer layer({.weights = weights, .activations = activations, .intermediate = 80});
      const std::vector<int32_t> row_ids = {1, 3, 0};
      const auto row = layer.random_x(1);
      InlineExecutor one;
      const auto alone = run_layer(layer, row, row_ids, 3, best_panel_dot(), one);
      for (int64_t tokens = 2; tokens <= 8; ++tokens) {
        for (int64_t at = 0; at < tokens; ++at) {
          auto x = layer.random_x(tokens);
          auto ids = layer.random_ids(tokens, 3);
          std::copy(row.begin(), row.end(), x.begin() + at * layer.spec().hidden);
          std::copy(row_ids.begin(), row_ids.end(), ids.begin() + at * 3);
          const auto all = run_layer(layer, x, ids, 3, best_panel_dot(), one);
          for (int64_t j = 0; j < 3; ++j) {
            const int64_t here = all.permuted[static_cast<size_t>(at * 3 + j)];
            const int64_t there = alone.permuted[static_cast<size_t>(j)];
            ASSERT_TRUE(std::equal(all.rows.begin() + here * layer.spec().hidden,
                                   all.rows.begin() + (here + 1) * layer.spec().hidden,
                                   alone.rows.begin() + there * layer.spec().hidden))
                << "row " << at << " of " << tokens << ", slot " << j;
          }
        }
      }
    }
  }
}

TEST(Experts, GiveTheSameBytesForAnyNumberOfThreads) {
  for (const Activations activations : kActivations) {
    TestLayer layer({.activations = activations, .hidden = 320, .intermediate = 232, .start = 24});
    const auto x = layer.random_x(11);
    const auto ids = layer.random_ids(11, 3);
    InlineExecutor one;
    const auto want = run_layer(layer, x, ids, 3, best_panel_dot(), one);
    for (const int threads : {2, 3}) {
      ThreadPool pool(threads);
      EXPECT_EQ(run_layer(layer, x, ids, 3, best_panel_dot(), pool), want) << threads;
    }
  }
}

TEST(Experts, ServeTwoCallersOfOnePool) {
  TestLayer layer({.activations = Activations::kMxfp8});
  ThreadPool pool(2);
  struct Call {
    std::vector<Bf16> x;
    std::vector<int32_t> ids;
    ExpertsOutput want;
    bool same = true;
  };
  std::vector<Call> calls;
  for (const int64_t tokens : {3, 7}) {
    Call call{layer.random_x(tokens), layer.random_ids(tokens, 3), {}};
    call.want = run_layer(layer, call.x, call.ids, 3, best_panel_dot(), pool);
    calls.push_back(std::move(call));
  }
  std::vector<std::thread> callers;
  for (Call& call : calls) {
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round)
        call.same &= run_layer(layer, call.x, call.ids, 3, best_panel_dot(), pool) == call.want;
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_TRUE(calls[0].same);
  EXPECT_TRUE(calls[1].same);
}

// x of 2^127 is 448 or less under a scale code of 247; infinities make it 448 under 254. Neither may turn a zero weight
// into NaN, nor overflow where the weight is small.
TEST(Experts, HoldTheLargestMxfp8Activations) {
  TestLayer layer(
      {.activations = Activations::kMxfp8, .hidden = 32, .intermediate = 32, .experts = 1});
  auto& e = layer.experts[0];
  auto* codes = const_cast<uint8_t*>(e.gate.codes);
  std::fill_n(codes, 32 * 16, uint8_t{0});
  std::fill_n(const_cast<uint8_t*>(e.gate.scales), 32, uint8_t{0});  // 2^-127
  codes[0] = 0x02;                                                   // gate 0: x[0] * 2^-127
  std::copy_n(codes, 32 * 16, const_cast<uint8_t*>(e.up.codes));
  std::copy_n(e.gate.scales, 32, const_cast<uint8_t*>(e.up.scales));
  layer.pack();
  std::vector<Bf16> x(32, Bf16{0x7F80});  // infinite
  InlineExecutor one;
  const auto out = run_layer(layer, x, {0}, 1, best_panel_dot(), one);
  EXPECT_EQ(out.x_scale[0], 254);
  EXPECT_EQ(from_mxfp8(out.h_values[0], out.h_scales[0]), 384.0 * 512.0);  // 448 * 448 in E4M3
  for (size_t c = 1; c < 32; ++c) EXPECT_EQ(out.h_values[c], 0);
  Judge(layer, x, {0}, 1, out).judge();
}

// x of 2^-133 beside 2^-118 (scale code 1), against weights of 0.5 * 2^119, alone and in a row with an infinity.
TEST(Experts, KeepTheSmallestMxfp8Activations) {
  TestLayer layer(
      {.activations = Activations::kMxfp8, .hidden = 64, .intermediate = 32, .experts = 1});
  auto& e = layer.experts[0];
  for (layouts::WeightView* w : {&e.gate, &e.up}) {
    auto* codes = const_cast<uint8_t*>(w->codes);
    std::fill_n(codes, 32 * 32, uint8_t{0});
    for (int64_t row = 0; row < 32; ++row) codes[row * 32] = 0x10;  // element 1
    std::fill_n(const_cast<uint8_t*>(w->scales), 64, uint8_t{246});
  }
  layer.pack();
  InlineExecutor one;
  for (const uint16_t other : {uint16_t{0x0000}, uint16_t{0x7F80}}) {
    std::vector<Bf16> x(64, Bf16{0});
    x[0] = formats::bf16_from_f32(0x1p-118F);
    x[1] = Bf16{1};  // 2^-133
    x[32] = Bf16{other};
    for (const PanelDot* dot : {&kPanelDotPortable, &best_panel_dot()}) {
      const auto out = run_layer(layer, x, {0}, 1, *dot, one);
      EXPECT_EQ(out.x_scale[0], 1);
      // Gate and up are 2^-15, h = 2^-31 (1 + 2^-17 ...).
      EXPECT_EQ(from_mxfp8(out.h_values[0], out.h_scales[0]), 0x1p-31);
    }
  }
}

TEST(Experts, ClampAtTheEdgesOfGptOss) {
  // Gate and up are their biases: the weights are zero.
  TestLayer layer({.hidden = 32,
                   .intermediate = 32,
                   .experts = 1,
                   .biases = true,
                   .swiglu = {7.0F, 1.702F, 1.0F}});
  auto& e = layer.experts[0];
  std::fill_n(const_cast<uint8_t*>(e.gate.codes), 32 * 16, uint8_t{0});
  std::fill_n(const_cast<uint8_t*>(e.up.codes), 32 * 16, uint8_t{0});
  const double edges[][2] = {{7.0625, 1}, {7, 1}, {6.9375, 1},  {-50, 1}, {-8, 1},
                             {1, 7.0625}, {1, 7}, {1, -7.0625}, {1, -7},  {1, -6.9375}};
  for (size_t i = 0; i < std::size(edges); ++i) {
    const auto at = static_cast<int64_t>(i);
    const_cast<Bf16*>(e.gate_bias.data)[at * e.gate_bias.stride] =
        formats::bf16_from_f64(edges[i][0]);
    const_cast<Bf16*>(e.up_bias.data)[at * e.up_bias.stride] = formats::bf16_from_f64(edges[i][1]);
  }
  layer.pack();
  const auto x = layer.random_x(1);
  InlineExecutor one;
  const auto out = run_layer(layer, x, {0}, 1, best_panel_dot(), one);
  Judge(layer, x, {0}, 1, out).judge();
  EXPECT_EQ(out.h[0], out.h[1]);  // 7.0625 counts as 7
  EXPECT_NE(out.h[1], out.h[2]);
  EXPECT_NE(out.h[3], out.h[4]);  // -50 does not count as -7
  EXPECT_EQ(out.h[5], out.h[6]);  // up on both sides
  EXPECT_EQ(out.h[7], out.h[8]);
  EXPECT_NE(out.h[8], out.h[9]);
}

TEST(Experts, SpreadANanScaleToTheOutputsThatReadIt) {
  TestLayer layer({.hidden = 64, .intermediate = 32, .experts = 2});
  const auto& down = layer.experts[1].down;
  const_cast<uint8_t*>(down.scales)[5 * down.scale_stride] = 0xFF;
  layer.pack();
  const auto x = layer.random_x(1);
  InlineExecutor one;
  const auto out = run_layer(layer, x, {0, 1}, 2, best_panel_dot(), one);
  for (size_t c = 0; c < 128; ++c) EXPECT_EQ(std::isnan(from_bf16(out.rows[c])), c == 64 + 5) << c;
}

}  // namespace
}  // namespace octet::cpu
