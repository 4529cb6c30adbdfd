// SPDX-License-Identifier: Apache-2.0
// The sums of a whole expert before their last rounding, against float64: from the h that the call itself made (rounded to BF16),
// and from float64's own. The second is mostly the elements of h next to a tie that fell the other way, each a BF16 step. The
// steps are those of experts.cc, whose bytes the sums must round to. Measured: docs/numerics.md.
#include <cmath>
#include <cstdio>
#include <functional>
#include <gtest/gtest.h>
#include <optional>
#include <span>

#include "cpu/expert_gemm.h"
#include "cpu/scratch.h"
#include "cpu/test_layer.h"
#include "cpu/test_nmse.h"

namespace octet::cpu {
namespace {

using layouts::ExpertWeights;
using layouts::WeightView;
using Doubles = std::vector<double>;

double f64(Bf16 v) { return static_cast<double>(formats::bf16_to_f32(v)); }

// [rows, w.rows]: alpha times x [rows, w.cols] times w.
Doubles multiply(const WeightView& w, const Doubles& x, float alpha) {
  const auto rows = std::ssize(x) / w.cols;
  Doubles out(static_cast<size_t>(rows * w.rows));
  Doubles weights(static_cast<size_t>(w.cols));
  for (int64_t n = 0; n < w.rows; ++n) {
    for (int64_t k = 0; k < w.cols; ++k)
      weights[static_cast<size_t>(k)] = static_cast<double>(w.value(n, k));
    for (int64_t row = 0; row < rows; ++row) {
      const double* const from = x.data() + row * w.cols;
      double sum = 0;
      for (int64_t k = 0; k < w.cols; ++k) sum += from[k] * weights[static_cast<size_t>(k)];
      out[static_cast<size_t>(row * w.rows + n)] = static_cast<double>(alpha) * sum;
    }
  }
  return out;
}

// float64, rounded to BF16 once.
Doubles hidden_f64(const ExpertWeights& e, const Doubles& x) {
  const Doubles gate = multiply(e.gate, x, e.gate_alpha), up = multiply(e.up, x, e.up_alpha);
  Doubles h;
  for (size_t i = 0; i < gate.size(); ++i)
    h.push_back(f64(formats::bf16_from_f64(up[i] * gate[i] / (1 + std::exp(-gate[i])))));
  return h;
}

// Rows in binary32, as ProductArgs wants them.
struct HeldRows {
  int64_t width;
  std::vector<float> values;
  IntegerLayout layout;
  std::vector<Hold> hold;
  std::vector<float*> rows;

  HeldRows(const IntegerLayout& l, int64_t count)
      : width(l.num_blocks * scale_block(l.format)),
        values(static_cast<size_t>(count * width)),
        layout(l),
        hold(static_cast<size_t>(count), Hold::kNone) {
    for (int64_t row = 0; row < count; ++row) rows.push_back(values.data() + row * width);
  }
};

// The products of one expert as run_experts takes them.
class Expert {
 public:
  Expert(const TestLayer& layer, int64_t rows, const PanelDot& dot)
      : weights_(layer.panels()),
        format_(layer.spec().weights),
        dot_(dot),
        run_{0, 0, rows},
        x_({format_, kXPlanes, weights_.sizes().gate_up_blocks}, rows),
        h_({format_, h_planes(Activations::kBf16, layer.spec().precision),
            weights_.sizes().down_blocks},
           rows),
        alpha_(static_cast<double>(layer.experts[0].down_alpha)) {}

  Doubles sums(const std::vector<Bf16>& x, const LayerSpec& spec) {
    InlineExecutor one;
    widen_bf16({x.data(), run_.count, spec.hidden}, x_.width, x_.values.data(), one);
    gate_up(product(x_),
            {.intermediate = spec.intermediate, .h = h_.rows.data(), .width = h_.width}, one,
            [&](int64_t row, int64_t col, int64_t count) {
              float* const h = h_.rows[static_cast<size_t>(row)] + col;
              for (int64_t c = 0; c < count; ++c)
                h[c] = formats::bf16_to_f32(formats::bf16_from_f32(h[c]));
            });
    const ProductArgs down = product(h_);
    const layouts::PanelSizes& sizes = weights_.sizes();
    Doubles out(static_cast<size_t>(run_.count * spec.hidden));
    for (int64_t p = 0; p < sizes.down_panels; ++p) {
      const uint8_t* const data = weights_.down_panel(0, p, nullptr);
      const PanelStream stream{data, {data + sizes.down_panel_bytes(), 0, 2048, true}};
      const Panels panels{{&stream, 1}, sizes.down_blocks, p, 1};
      multiply_panels(down, run_, panels, [&](size_t, int64_t row, const LaneSums& sums) {
        for (int64_t lane = 0; lane < layouts::kPanelRows; ++lane) {
          out[static_cast<size_t>(row * spec.hidden + p * layouts::kPanelRows + lane)] =
              static_cast<double>(sums.acc[lane]) * static_cast<double>(sums.unhold) * alpha_;
        }
      });
    }
    return out;
  }
  Doubles hidden() const { return {h_.values.begin(), h_.values.end()}; }
  bool holds_integers() const {
    const auto is = [](Hold hold) { return hold == Hold::kIntegers; };
    return std::ranges::all_of(x_.hold, is) && std::ranges::all_of(h_.hold, is);
  }

 private:
  ProductArgs product(HeldRows& held) {
    InlineExecutor one;
    const RowDot dot = dot_.of(format_, held.layout.planes);
    integers_.emplace(
        dot, held.layout, std::span<const ExpertRun>(&run_, 1),
        IntegerRows{.x = held.values.data(), .rows = run_.count, .hold = held.hold.data()},
        std::identity{}, one);
    return {.weights = &weights_,
            .dot = dot,
            .runs = {&run_, 1},
            .x = held.rows.data(),
            .integers = integers_->rows(),
            .hold = held.hold.data()};
  }

  const PanelSource& weights_;
  WeightFormat format_;
  const PanelDot& dot_;
  ExpertRun run_;
  HeldRows x_, h_;
  std::optional<IntegerScratch> integers_;
  double alpha_;
};

constexpr int64_t kRows = 16, kHidden = 1024, kIntermediate = 576;

TestLayer layer_of(WeightFormat weights, Precision precision) {
  TestLayer layer({.weights = weights,
                   .precision = precision,
                   .hidden = kHidden,
                   .intermediate = kIntermediate,
                   .experts = 1,
                   .seed = 7});
  if (weights == WeightFormat::kNvfp4) {
    layer.experts[0].gate_alpha = 0x1p-4F;  // h of rows of 10^7 stays where integers hold it
    layer.experts[0].up_alpha = 0x1.8p-5F;
    layer.pack();
  }
  return layer;
}

// NMSE of all rows together.
struct Errors {
  double from_own_h = 0, from_float64 = 0;
  void take_worst(const Errors& e) {
    from_own_h = std::max(from_own_h, e.from_own_h);
    from_float64 = std::max(from_float64, e.from_float64);
  }
};
Errors errors_of(const TestLayer& layer, const std::vector<Bf16>& x, const Doubles& want,
                 const PanelDot& dot) {
  Expert expert(layer, kRows, dot);
  const Doubles sums = expert.sums(x, layer.spec());
  EXPECT_EQ(expert.holds_integers(), dot.few != nullptr);
  InlineExecutor one;
  const auto rounded = run_layer(layer, x, std::vector<int32_t>(kRows, 0), 1, dot, one).rows;
  for (size_t i = 0; i < sums.size(); ++i)  // half a step, and alpha's rounding
    EXPECT_NEAR(f64(rounded[i]), sums[i], std::fabs(sums[i]) * (0x1p-8 + 0x1p-22));
  const ExpertWeights& e = layer.experts[0];
  return {nmse(sums, multiply(e.down, expert.hidden(), e.down_alpha)), nmse(sums, want)};
}

struct Measured {
  Errors fast, exact;
};
// The worst over the instruction sets with kernels on integers.
Measured measure(WeightFormat weights, float size, float outlier) {
  TestLayer fast = layer_of(weights, Precision::kFast);
  const TestLayer exact = layer_of(weights, Precision::kExact);
  auto x = fast.random_x(kRows, size);
  for (int64_t row = 0; row < kRows && outlier != 0; ++row)
    x[static_cast<size_t>(row * kHidden + 100)] = formats::bf16_from_f32(outlier * size);
  Doubles x_f64;
  for (const Bf16 v : x) x_f64.push_back(f64(v));
  const ExpertWeights& e = fast.experts[0];
  const Doubles want = multiply(e.down, hidden_f64(e, x_f64), e.down_alpha);
  Measured measured;
  for (const IsaInfo& isa : isas()) {
    if (!isa.is_here() || isa.dot->few == nullptr) continue;
    measured.fast.take_worst(errors_of(fast, x, want, *isa.dot));
    measured.exact.take_worst(errors_of(exact, x, want, *isa.dot));
  }
  char name[64], text[96];
  std::snprintf(name, sizeof name, "%s_size_%g_outlier_%g", std::string(name_of(weights)).c_str(),
                static_cast<double>(size), static_cast<double>(outlier));
  std::snprintf(text, sizeof text, "own h: fast %.1e exact %.1e; float64's: fast %.1e exact %.1e",
                measured.fast.from_own_h, measured.exact.from_own_h, measured.fast.from_float64,
                measured.exact.from_float64);
  testing::Test::RecordProperty(name, text);
  return measured;
}

TEST(LayerAccuracy, GaussianRowsOfAnySize) {
  for (const WeightFormat weights : {WeightFormat::kMxfp4, WeightFormat::kNvfp4}) {
    for (const float size : {1e-6F, 1.0F, 1e7F}) {
      SCOPED_TRACE(std::string(name_of(weights)) + ", size " + std::to_string(size));
      const Measured measured = measure(weights, size, 0);
      EXPECT_LT(measured.fast.from_own_h, 1e-8);
      EXPECT_LT(measured.exact.from_own_h, 1e-12);
      EXPECT_LT(measured.fast.from_float64, 1e-8);
      EXPECT_LT(measured.exact.from_float64, 1e-8);
    }
  }
}

TEST(LayerAccuracy, RowsWithOneOutlier) {
  for (const WeightFormat weights : {WeightFormat::kMxfp4, WeightFormat::kNvfp4}) {
    SCOPED_TRACE(name_of(weights));
    const Measured measured = measure(weights, 1, 1e4F);
    EXPECT_LT(measured.fast.from_own_h, 1e-8);
    EXPECT_LT(measured.exact.from_own_h, 1e-12);
    EXPECT_LT(measured.fast.from_float64, 1e-8);
    EXPECT_LT(measured.exact.from_float64, 1e-8);
    if (measured.fast.from_own_h == 0) continue;  // no kernels on integers here
    EXPECT_GT(measured.fast.from_own_h, 10 * measured.exact.from_own_h);  // it makes a difference
  }
}

}  // namespace
}  // namespace octet::cpu
