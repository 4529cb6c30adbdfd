// SPDX-License-Identifier: Apache-2.0
// What holding activations as integers costs, against binary64 from the same codes: docs/numerics.md, "Activations as
// integers", has the derivation and the numbers that these tests measure. NMSE of the sums, before their last rounding.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <gtest/gtest.h>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "cpu/activation.h"
#include "cpu/digits.h"
#include "cpu/integer_rows.h"
#include "cpu/panel_dot.h"
#include "cpu/test_nmse.h"
#include "formats/bf16.h"
#include "formats/e2m1.h"
#include "formats/e4m3.h"
#include "formats/ue8m0.h"
#include "layouts/panel.h"

namespace octet::cpu {
namespace {

using layouts::kPanelRows;
using Row = std::vector<float>;
using Sums = std::vector<double>;

// Panels of random weights, `factor` times which are of size 1 / sqrt(width) or so.
struct Matrix {
  WeightFormat format;
  int64_t width, panels;
  std::vector<uint8_t> bytes;
  double factor;
  std::vector<float> weights;  // [panels, 16, width]: exact

  Matrix(WeightFormat f, int64_t k, int64_t num_panels, std::mt19937& rng)
      : format(f), width(k), panels(num_panels) {
    const bool is_mx = format == WeightFormat::kMxfp4;
    factor = is_mx ? 1 : 0x1p-8;
    bytes.resize(static_cast<size_t>(panels * stride()));
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng());
    for (int64_t p = 0; p < panels; ++p) {
      for (int64_t b = 0; b < blocks(); ++b) {
        for (int64_t lane = 0; lane < kPanelRows; ++lane)
          bytes[static_cast<size_t>(p * stride() +
                                    layouts::panel_scale_position(format, lane, b))] =
              static_cast<uint8_t>(is_mx ? 117 + rng() % 4 : 0x28 + rng() % 32);
      }
    }
    decode();
  }
  void decode() {
    for (int64_t p = 0; p < panels; ++p) {
      for (int64_t lane = 0; lane < kPanelRows; ++lane) {
        for (int64_t k = 0; k < width; ++k) weights.push_back(weight(p, lane, k));
      }
    }
  }
  int64_t blocks() const { return width / scale_block(format); }
  int64_t stride() const { return layouts::panel_bytes(format, blocks()); }
  const uint8_t* panel(int64_t p) const { return bytes.data() + p * stride(); }
  float weight(int64_t p, int64_t lane, int64_t k) const {
    const auto at = layouts::panel_code_position(format, blocks(), lane, k);
    const int code = panel(p)[at.byte] >> at.shift & 15;
    const uint8_t scale =
        panel(p)[layouts::panel_scale_position(format, lane, k / scale_block(format))];
    return formats::e2m1_to_f32(static_cast<uint8_t>(code)) * (format == WeightFormat::kMxfp4
                                                                   ? formats::ue8m0_to_f32(scale)
                                                                   : formats::e4m3_to_f32(scale));
  }
  // For each output of each panel the sum in binary64; `masses`: of the magnitudes of the blocks' sums.
  Sums truth(const Row& x, Sums* masses = nullptr) const {
    Sums sums;
    const float* w = weights.data();
    for (int64_t i = 0; i < panels * kPanelRows; ++i) {
      double sum = 0, mass = 0;
      const float* v = x.data();
      for (int64_t b = 0; b < blocks(); ++b) {
        double block = 0;
        for (int64_t k = scale_block(format); k > 0; --k)
          block += static_cast<double>(*w++) * static_cast<double>(*v++);
        sum += block;
        mass += std::fabs(block);
      }
      sums.push_back(sum);
      if (masses != nullptr) masses->push_back(mass);
    }
    return sums;
  }
  Sums integer_sums(const IntegerDot& dot, int planes, const Row& x) const {
    std::vector<uint8_t> row(static_cast<size_t>(blocks() * digit_record_bytes(format, planes)));
    EXPECT_TRUE(dot.encode(x.data(), blocks(), row.data()));
    const uint8_t* const pointer = row.data();
    Sums sums;
    for (int64_t p = 0; p < panels; ++p) {
      float out[kPanelRows];
      const PanelStream stream{panel(p), {panel(0) + bytes.size(), 0, 64, true}};
      dot.dot({&stream, 1}, blocks(), &pointer, 1, out);
      for (const float v : out)
        sums.push_back(static_cast<double>(v) * static_cast<double>(digit_gain(format)));
    }
    return sums;
  }
};

float to_bf16(float v) { return formats::bf16_to_f32(formats::bf16_from_f32(v)); }

Row gaussian(int64_t width, float size, std::mt19937& rng) {
  std::normal_distribution<float> normal;
  Row x;
  for (int64_t k = 0; k < width; ++k) x.push_back(to_bf16(size * normal(rng)));
  return x;
}

// The second product's row: semantics.md section 9 from binary64 sums, eight gates and eight ups a panel.
Row hidden_of(const Sums& sums, double factor) {
  Row h;
  for (size_t i = 0; i < sums.size(); i += kPanelRows) {
    for (size_t lane = i; lane < i + kHiddenLanes; ++lane) {
      const auto gate = static_cast<float>(sums[lane] * factor);
      const auto up = static_cast<float>(sums[lane + kHiddenLanes] * factor);
      h.push_back(to_bf16(swiglu(up, gate, {})));
    }
  }
  return h;
}

struct Kernel {
  std::string_view name;
  const PanelDot* dot;
};
std::vector<Kernel> kernels() {
  std::vector<Kernel> all;
  for (const IsaInfo& isa : isas()) {
    if (isa.is_here() && isa.dot->few != nullptr) all.push_back({isa.runs_on, isa.dot});
  }
  return all;
}

struct Worst {
  double fast = 0, exact = 0;
};

// The worst of both precisions over all kernels.
void measure(const Matrix& m, const Row& x, Worst& worst) {
  const Sums want = m.truth(x);
  for (const Kernel& kernel : kernels()) {
    const auto error = [&](Precision precision) {
      const int planes = h_planes(Activations::kBf16, precision);
      return nmse(m.integer_sums(*kernel.dot->of(m.format, planes).few, planes, x), want);
    };
    worst.fast = std::max(worst.fast, error(Precision::kFast));
    worst.exact = std::max(worst.exact, error(Precision::kExact));
  }
}

std::string in_short(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", v);
  return text;
}
void record(const std::string& what, const Worst& worst) {
  testing::Test::RecordProperty(what + "_fast", in_short(worst.fast));
  testing::Test::RecordProperty(what + "_exact", in_short(worst.exact));
}

struct Shape {
  int64_t hidden, intermediate;
};
constexpr Shape kShapes[] = {{1024, 768}, {5120, 512}, {512, 5120}};
constexpr WeightFormat kFormats[] = {WeightFormat::kMxfp4, WeightFormat::kNvfp4};

struct Expert {
  std::mt19937 rng;
  Matrix gate_up, down;
  Expert(WeightFormat format, const Shape& shape)
      : rng(static_cast<unsigned>(shape.hidden + shape.intermediate)),
        gate_up(format, shape.hidden, shape.intermediate / kHiddenLanes, rng),
        down(format, shape.intermediate, 16, rng) {}
  // Both products of a Gaussian row; `change` is what becomes of a row before it is multiplied.
  template <class Fn>
  void measure_both(float size, const Fn& change, Worst& worst) {
    Row x = gaussian(gate_up.width, size, rng);
    Row h = hidden_of(gate_up.truth(x), gate_up.factor);
    change(x, rng);
    change(h, rng);
    measure(gate_up, x, worst);
    measure(down, h, worst);
  }
};

TEST(Accuracy, GaussianRowsOfAnySize) {
  if (kernels().empty()) GTEST_SKIP() << "no kernels on integers here";
  const auto as_it_is = [](Row&, std::mt19937&) {};
  constexpr float kSizes[] = {1e-6F, 1.0F, 1e7F};
  for (const WeightFormat format : kFormats) {
    Worst worst[std::size(kSizes)];
    for (const Shape& shape : kShapes) {
      Expert expert(format, shape);
      for (size_t i = 0; i < std::size(kSizes); ++i)
        expert.measure_both(kSizes[i], as_it_is, worst[i]);
    }
    for (size_t i = 0; i < std::size(kSizes); ++i) {
      EXPECT_LT(worst[i].fast, 1e-8) << name_of(format) << ", size " << kSizes[i];
      EXPECT_LT(worst[i].exact, 1e-8) << name_of(format) << ", size " << kSizes[i];
      record(std::string(name_of(format)) + "_size_" + in_short(static_cast<double>(kSizes[i])),
             worst[i]);
    }
  }
}

TEST(Accuracy, RowsWithAnOutlier) {
  if (kernels().empty()) GTEST_SKIP() << "no kernels on integers here";
  const auto add_outlier = [](Row& x, std::mt19937& rng) {
    double energy = 0;
    for (const float v : x) energy += static_cast<double>(v) * static_cast<double>(v);
    const double rest = std::sqrt(energy / static_cast<double>(x.size()));
    x[rng() % x.size()] = to_bf16(static_cast<float>(1e4 * rest));
  };
  for (const WeightFormat format : kFormats) {
    Worst worst;
    for (const Shape& shape : kShapes) Expert(format, shape).measure_both(1.0F, add_outlier, worst);
    EXPECT_LT(worst.fast, 1e-6) << name_of(format);
    EXPECT_LT(worst.exact, 1e-8) << name_of(format);
    record(std::string(name_of(format)) + "_outlier", worst);
  }
}

// Three planes hold MXFP8 numbers exactly: what is left is binary32's sum of the blocks.
TEST(Accuracy, Mxfp8RowsAreExactUpToTheSumOfTheBlocks) {
  if (kernels().empty()) GTEST_SKIP() << "no kernels on integers here";
  std::mt19937 rng(8);
  double most = 0;  // of the bound
  for (const WeightFormat format : kFormats) {
    for (const int64_t width : {512, 1536, 2880, 5120}) {
      const Matrix m(format, width, 8, rng);
      Row x;
      int exponent = 0;
      for (int64_t k = 0; k < width; ++k) {
        if (k % kMxBlock == 0) exponent = static_cast<int>(rng() % 12) - 14;
        auto code = static_cast<uint8_t>(rng());
        if (formats::e4m3_is_nan(code)) code = 1;
        x.push_back(std::ldexp(formats::e4m3_to_f32(code), exponent));
      }
      Sums masses;
      const Sums want = m.truth(x, &masses);
      const int planes = h_planes(Activations::kMxfp8, Precision::kFast);
      ASSERT_EQ(planes, 3);
      for (const Kernel& kernel : kernels()) {
        const Sums got = m.integer_sums(*kernel.dot->of(format, planes).few, planes, x);
        for (size_t i = 0; i < want.size(); ++i) {
          const double bound = static_cast<double>(m.blocks() + 2) * 0x1p-24 * masses[i];
          EXPECT_NEAR(got[i], want[i], bound) << kernel.name << ", output " << i;
          most = std::max(most, std::fabs(got[i] - want[i]) / bound);
        }
      }
    }
  }
  RecordProperty("most_of_the_bound", in_short(most));
}

}  // namespace
}  // namespace octet::cpu
