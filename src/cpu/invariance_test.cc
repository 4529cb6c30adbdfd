// SPDX-License-Identifier: Apache-2.0
// A layer's bytes depend neither on the other rows nor on the number of threads: every instruction set of this machine, both
// formats, activations and precisions; rows that integers hold and rows that they don't in one call.
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <numeric>

#include "core/test_threads.h"
#include "cpu/test_layer.h"
#include "cpu/thread_pool.h"

namespace octet::cpu {
namespace {

constexpr int kMostRows = 40;

// A layer of two experts, and rows for its first one: Gaussian, some with an outlier, some that stay binary32.
struct Problem {
  TestLayerShape shape;
  TestLayer layer;
  std::vector<Bf16> x;

  explicit Problem(const TestLayerShape& s) : shape(s), layer(s), x(layer.random_x(kMostRows)) {
    for (int row = 0; row < kMostRows; ++row) {
      if (row % 5 == 2) scale_row(row, 1, 0x1p13F);  // one outlier: third digits
      if (row % 9 == 4) scale_row(row, 1, 0x1p70F);
      if (row % 11 == 6) scale_row(row, width(), 0x1p-75F);
      if (row == 17) at(row, 5) = Bf16{0x7F80};
    }
  }
  int64_t width() const { return layer.spec().hidden; }
  Bf16& at(int row, int64_t col) { return x[static_cast<size_t>(row * width() + col)]; }
  void scale_row(int row, int64_t count, float by) {
    for (int64_t c = 0; c < count; ++c)
      at(row, c) = formats::bf16_from_f32(formats::bf16_to_f32(at(row, c)) * by);
  }
  std::vector<Bf16> rows(const std::vector<int>& which) const {
    std::vector<Bf16> out;
    for (const int row : which)
      out.insert(out.end(), x.begin() + row * width(), x.begin() + (row + 1) * width());
    return out;
  }
  // Every row on expert 0.
  ExpertsOutput run(const std::vector<int>& which, PanelDot dot, Executor& executor) const {
    return run_layer(layer, rows(which), std::vector<int32_t>(which.size(), 0), 1, dot, executor);
  }
};

template <class T>
bool same_row(const std::vector<T>& a, int64_t row_a, const std::vector<T>& b, int64_t row_b,
              int64_t width) {
  const auto from = a.begin() + row_a * width;
  return std::equal(from, from + width, b.begin() + row_b * width);
}

// Formats, activations, precisions; cuts that begin inside a block, widths that no vector divides.
void for_each_problem(const std::function<void(const Problem&)>& fn) {
  for (const WeightFormat weights : {WeightFormat::kMxfp4, WeightFormat::kNvfp4}) {
    for (const Activations activations : {Activations::kBf16, Activations::kMxfp8}) {
      for (const Precision precision : {Precision::kFast, Precision::kExact}) {
        const int64_t block = scale_block(weights);
        struct Cut {
          int64_t hidden, intermediate, start;
        };
        for (const Cut cut : {Cut{160, 72, 0}, Cut{96, 45, block - 3}, Cut{288, 80, block / 2}}) {
          SCOPED_TRACE(std::string(name_of(weights)) + ", " + std::string(name_of(activations)) +
                       ", " + std::string(name_of(precision)) + ", I " +
                       std::to_string(cut.intermediate));
          fn(Problem({.weights = weights,
                      .activations = activations,
                      .precision = precision,
                      .hidden = cut.hidden,
                      .intermediate = cut.intermediate,
                      .experts = 2,
                      .start = cut.start}));
        }
      }
    }
  }
}
template <class Fn>
void for_each_isa(const Fn& fn) {
  for (const IsaInfo& isa : isas()) {
    if (!isa.is_here()) continue;
    SCOPED_TRACE(isa.runs_on);
    fn(*isa.dot);
  }
}

// Which rows a call has: the first n, and any of them in any order.
std::vector<std::vector<int>> selections() {
  std::vector<std::vector<int>> all;
  for (const int n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 17, 31, 32, 33, kMostRows}) {
    all.emplace_back(static_cast<size_t>(n));
    std::iota(all.back().begin(), all.back().end(), 0);
  }
  std::mt19937 rng(1);
  for (const size_t n : {2, 3, 5, 8, 13, 34}) {
    std::vector<int> any = all.back();
    any.resize(kMostRows);
    std::iota(any.begin(), any.end(), 0);
    std::shuffle(any.begin(), any.end(), rng);
    any.resize(n);
    all.push_back(any);
  }
  return all;
}

TEST(Invariance, ARowHasTheSameBytesWhateverRowsAreBesideIt) {
  for_each_problem([](const Problem& p) {
    for_each_isa([&](const PanelDot& dot) {
      InlineExecutor one;
      std::vector<ExpertsOutput> alone;
      for (int row = 0; row < kMostRows; ++row) alone.push_back(p.run({row}, dot, one));
      for (const std::vector<int>& which : selections()) {
        const ExpertsOutput all = p.run(which, dot, one);
        for (int64_t i = 0; i < std::ssize(which); ++i) {
          const auto row = which[static_cast<size_t>(i)];
          const ExpertsOutput& want = alone[static_cast<size_t>(row)];
          const int64_t blocks = ceil_div(p.shape.intermediate, kMxBlock);
          ASSERT_TRUE(same_row(all.h, i, want.h, 0, p.shape.intermediate) &&
                      same_row(all.h_values, i, want.h_values, 0, p.shape.intermediate) &&
                      same_row(all.h_scales, i, want.h_scales, 0, blocks) &&
                      same_row(all.rows, i, want.rows, 0, p.width()))
              << "row " << row << ", number " << i << " of " << which.size();
        }
      }
    });
  });
}

// Panels that go two abreast and some that are left alone, from 1 row to more than a call takes.
TEST(Invariance, PanelsReadAbreastOrOneByOneGiveTheSameBytes) {
  const auto check = [](const Problem& p) {
    for_each_isa([&](PanelDot dot) {
      InlineExecutor one;
      for (const int n : {1, 2, 3, 9, kMostRows}) {
        std::vector<int> rows(static_cast<size_t>(n));
        std::iota(rows.begin(), rows.end(), 0);
        const Streaming single{1, 6144, false}, abreast{kMostPanels, 2048, true};
        dot.streaming = &single;
        const ExpertsOutput want = p.run(rows, dot, one);
        dot.streaming = &abreast;
        const ExpertsOutput got = p.run(rows, dot, one);
        EXPECT_EQ(got.rows, want.rows);
        EXPECT_EQ(got.h, want.h);
        EXPECT_EQ(got.h_values, want.h_values);
        EXPECT_EQ(got.h_scales, want.h_scales);
      }
    });
  };
  for_each_problem(check);
  check(
      Problem({.weights = WeightFormat::kNvfp4, .hidden = 176, .intermediate = 88, .experts = 2}));
}

TEST(Invariance, AnyNumberOfThreadsGivesTheSameBytes) {
  for_each_problem([](const Problem& p) {
    for_each_isa([&](const PanelDot& dot) {
      for (const int64_t tokens : {1, 3, 20}) {
        const std::vector<Bf16> x(p.x.begin(), p.x.begin() + tokens * p.width());
        std::vector<int32_t> ids;  // of expert 1 every second row
        for (int64_t t = 0; t < tokens; ++t) ids.insert(ids.end(), {0, t % 2 == 0 ? 1 : -1});
        InlineExecutor one;
        const ExpertsOutput want = run_layer(p.layer, x, ids, 2, dot, one);
        for (int threads = 1; threads <= 9; ++threads) {
          TestThreads executor(threads);
          ASSERT_EQ(run_layer(p.layer, x, ids, 2, dot, executor), want) << threads << " threads";
        }
      }
    });
  });
}

// Where they may, the precisions differ, or one would be untested: BF16 rows whose blocks spread wider than two digits.
TEST(Invariance, PrecisionMattersToBf16RowsAlone) {
  for_each_isa([](const PanelDot& dot) {
    for (const WeightFormat weights : {WeightFormat::kMxfp4, WeightFormat::kNvfp4}) {
      for (const Activations activations : {Activations::kBf16, Activations::kMxfp8}) {
        TestLayerShape shape{.weights = weights, .activations = activations};
        shape.precision = Precision::kFast;
        const Problem fast(shape);
        shape.precision = Precision::kExact;
        const Problem exact(shape);
        InlineExecutor one;
        for (const std::vector<int>& which : {std::vector<int>{2}, std::vector<int>{2, 7, 12}}) {
          const bool may_differ = activations == Activations::kBf16 && dot.few != nullptr;
          EXPECT_EQ(fast.run(which, dot, one).rows != exact.run(which, dot, one).rows, may_differ)
              << name_of(weights) << ", " << name_of(activations);
        }
      }
    }
  });
}

// Instruction sets with kernels on integers agree on the sums of rows that integers hold.
TEST(Invariance, InstructionSetsWithIntegersGiveTheSameBytes) {
  for_each_problem([](const Problem& p) {
    InlineExecutor one;
    const std::vector<int> which = {0, 2, 5, 7, 8};
    std::vector<ExpertsOutput> all;
    for_each_isa([&](const PanelDot& dot) {
      if (dot.few != nullptr) all.push_back(p.run(which, dot, one));
    });
    for (const ExpertsOutput& out : all) EXPECT_EQ(out, all[0]);
  });
}

}  // namespace
}  // namespace octet::cpu
