// SPDX-License-Identifier: Apache-2.0
// Every row of kernels.inc against the reference, over shapes around its own tiles and routings that hurt.
#include <gtest/gtest.h>
#include <optional>
#include <stdexcept>

#include "cpu/thread_pool.h"
#include "formats/bf16.h"
#include "kernel_case.h"

namespace octet::conformance {
namespace {

// A panel is 16 rows (8 columns of h), a scale block 16 or 32 elements, a call of the dot 4 activation rows.
constexpr int64_t kHidden[] = {32, 64, 96, 160};
constexpr int64_t kRows[] = {0, 1, 2, 3, 4, 5, 8, 9, 17};
constexpr Slice kSlices[] = {{16, 0},  {21, 3}, {24, 0},  {32, 0}, {40, 8},
                             {48, 16}, {80, 0}, {96, 16}, {128, 0}};

class EveryKernel : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    const std::string why = dispatch::machine_refusal(kernel().isa);
    if (!why.empty()) GTEST_SKIP() << why;
  }
  static const dispatch::Kernel& kernel() {
    return dispatch::kernels()[static_cast<size_t>(GetParam())];
  }
};

void expect_inside(const KernelCase& c) {
  CaseLayer layer(c);
  const Rows rows = layer.rows(c);
  InlineExecutor one;
  const std::vector<Bf16> y = layer.run(rows, one);
  const reference::Worst worst = layer.compare(rows, y);
  EXPECT_EQ(worst.num_outside, 0) << fmt::format(
      "{}: y[{}, {}] is {}, want {} in [{}, {}], error / bound {}", c.text(), worst.token,
      worst.column, worst.got, worst.want.value, worst.want.lo, worst.want.hi, worst.share);
}

TEST_P(EveryKernel, IsInsideTheReferencesInterval) {
  unsigned seed = 100;
  for (const Slice& slice : kSlices) {
    for (const int64_t hidden : kHidden) {
      ++seed;
      expect_inside({.kernel = &kernel(),
                     .hidden = hidden,
                     .intermediate = slice.intermediate,
                     .start = slice.start,
                     .tokens = kRows[seed % std::size(kRows)],
                     .routing = kRoutings[seed % std::size(kRoutings)],
                     .odd_scales = seed % 4 == 0,
                     .seed = seed});
    }
  }
}

TEST_P(EveryKernel, TakesEveryRoutingAtEveryNumberOfRows) {
  unsigned seed = 500;
  for (const Routing routing : kRoutings) {
    for (const int64_t tokens : kRows) {
      expect_inside({.kernel = &kernel(),
                     .hidden = 64,
                     .intermediate = 40,
                     .start = 8,
                     .tokens = tokens,
                     .routing = routing,
                     .odd_scales = tokens == 9,
                     .seed = ++seed});
    }
  }
}

// Row `row` of `from` behind the others.
void append_row(const Rows& from, int64_t row, Rows& to) {
  const int64_t hidden = std::ssize(from.x) / from.count();
  to.x.insert(to.x.end(), from.x.begin() + row * hidden, from.x.begin() + (row + 1) * hidden);
  const int64_t k = from.top_k;
  to.ids.insert(to.ids.end(), from.ids.begin() + row * k, from.ids.begin() + (row + 1) * k);
  to.weights.insert(to.weights.end(), from.weights.begin() + row * k,
                    from.weights.begin() + (row + 1) * k);
}

std::vector<Bf16> row_of(const std::vector<Bf16>& y, int64_t row, int64_t hidden) {
  return {y.begin() + row * hidden, y.begin() + (row + 1) * hidden};
}

// Rows whose MXFP8 scale codes are 1 to 3 or 250, or both in one row; a limit keeps h finite.
TEST_P(EveryKernel, TakesRowsAtTheEndsOfTheirScales) {
  const KernelCase c{.kernel = &kernel(), .seed = 2};
  CaseLayer layer(c);
  Rows rows = layer.rows(c);
  const auto times = [&](int64_t row, int64_t first, int64_t count, float by) {
    for (int64_t i = row * c.hidden + first; i < row * c.hidden + first + count; ++i) {
      Bf16& v = rows.x[static_cast<size_t>(i)];
      v = formats::bf16_from_f32(formats::bf16_to_f32(v) * by);
    }
  };
  times(0, 0, c.hidden, 0x1p-118F);
  times(1, 0, c.hidden, 0x1p122F);
  times(2, 0, 32, 0x1p122F);
  times(2, 32, c.hidden - 32, 0x1p-118F);
  InlineExecutor one;
  const std::vector<Bf16> y = layer.run(rows, one);
  const reference::Worst worst = layer.compare(rows, y);
  EXPECT_EQ(worst.num_outside, 0) << c.text();
  for (int64_t row = 0; row < rows.count(); ++row) {
    Rows alone{.x = {}, .ids = {}, .weights = {}, .top_k = rows.top_k};
    append_row(rows, row, alone);
    EXPECT_EQ(layer.run(alone, one), row_of(y, row, c.hidden)) << c.text() << ": row " << row;
  }
}

TEST_P(EveryKernel, GivesARowTheSameBytesAloneAndAtEveryPlaceAmongOthers) {
  for (const Slice& slice : {Slice{80, 0}, Slice{40, 8}}) {
    const KernelCase c{.kernel = &kernel(),
                       .hidden = 96,
                       .intermediate = slice.intermediate,
                       .start = slice.start,
                       .tokens = 9,
                       .routing = Routing::kDuplicates,
                       .seed = 11};
    CaseLayer layer(c);
    const Rows rows = layer.rows(c);
    InlineExecutor one;
    Rows alone{.x = {}, .ids = {}, .weights = {}, .top_k = rows.top_k};
    append_row(rows, 0, alone);
    const std::vector<Bf16> want = layer.run(alone, one);
    for (const int64_t count : {2, 3, 4, 5, 8, 9}) {
      for (int64_t place = 0; place < count; ++place) {
        Rows mixed{.x = {}, .ids = {}, .weights = {}, .top_k = rows.top_k};
        for (int64_t r = 0; r < count; ++r) {
          append_row(rows, r == place ? 0 : r < place ? r + 1 : r, mixed);
        }
        EXPECT_EQ(row_of(layer.run(mixed, one), place, c.hidden), want)
            << c.text() << ": row at place " << place << " of " << count;
      }
    }
  }
}

TEST_P(EveryKernel, GivesTheSameBytesAgainAndOnAnyNumberOfThreads) {
  for (const bool odd_scales : {false, true}) {
    const KernelCase c{.kernel = &kernel(),
                       .hidden = 160,
                       .intermediate = 96,
                       .start = 16,
                       .tokens = 17,
                       .odd_scales = odd_scales,
                       .seed = 12};
    CaseLayer layer(c);
    const Rows rows = layer.rows(c);
    InlineExecutor one;
    const std::vector<Bf16> want = layer.run(rows, one);
    EXPECT_EQ(layer.run(rows, one), want) << c.text() << ": a second time";
    for (const int threads : {2, 3}) {
      cpu::ThreadPool pool(threads);
      EXPECT_EQ(layer.run(rows, pool), want) << c.text() << ": " << threads << " threads";
    }
  }
}

// What the comparison is worth: one slot of one row sent to a wrong expert, and it must fail at that row and no other.
TEST_P(EveryKernel, IsFoundOutWhenOneSlotGoesToAWrongExpert) {
  const KernelCase c{.kernel = &kernel(), .hidden = 64, .intermediate = 48, .seed = 13};
  CaseLayer layer(c);
  const Rows rows = layer.rows(c);
  InlineExecutor one;
  for (size_t slot = 0; slot < rows.ids.size(); ++slot) {
    Rows wrong = rows;
    wrong.ids[slot] = (rows.ids[slot] + 1) % static_cast<int32_t>(CaseLayer::kExperts);
    const reference::Worst worst = layer.compare(rows, layer.run(wrong, one));
    EXPECT_GT(worst.share, 1) << c.text() << ": slot " << slot;
    EXPECT_GT(worst.num_outside, 0) << c.text() << ": slot " << slot;
    EXPECT_EQ(worst.token, static_cast<int64_t>(slot) / rows.top_k) << c.text();
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, EveryKernel,
                         testing::Range(0, static_cast<int>(dispatch::kernels().size())),
                         [](const auto& row) {
                           return std::string(
                               dispatch::kernels()[static_cast<size_t>(row.param)].name);
                         });

}  // namespace
}  // namespace octet::conformance
