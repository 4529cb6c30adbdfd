// SPDX-License-Identifier: Apache-2.0
// grouped_moe against the layer's own engine (the same arithmetic: the same bytes) and against the reference.
#include <cmath>
#include <gtest/gtest.h>

#include "cpu/ops.h"
#include "cpu/test_layer.h"
#include "cpu/thread_pool.h"
#include "layouts/grouped.h"
#include "layouts/scale_layout.h"
#include "reference/reference.h"
#include "routing/record.h"

namespace octet::cpu {
namespace {

constexpr int64_t kTopK = 2;

// A layer in checkpoint order and in the grouped order, and its input.
struct Problem {
  TestLayer layer;
  int64_t tokens, tile;
  std::vector<Bf16> x, y;
  std::vector<int32_t> ids, map;
  std::vector<uint8_t> w1, w1_sf, w2, w2_sf;
  std::vector<float> alpha1, alpha2;

  explicit Problem(int64_t num_tokens)
      : layer({.weights = WeightFormat::kNvfp4, .hidden = 96, .intermediate = 128, .experts = 5}),
        tokens(num_tokens),
        tile(num_tokens >= 2048  ? 128
             : num_tokens >= 512 ? 32
                                 : 8) {
    for (layouts::ExpertWeights& e : layer.experts) {
      e.gate_alpha = e.up_alpha;  // one factor for w1
      alpha1.push_back(e.up_alpha);
      alpha2.push_back(e.down_alpha);
      group(e);
    }
    layer.pack();
    x = layer.random_x(tokens);
    ids = layer.random_ids(tokens, kTopK);  // three in eight ids are outside
    const int64_t slots = routing::max_tiles(tokens, kTopK, 5, tile) * tile;
    y.assign(static_cast<size_t>(slots * layer.spec().hidden), Bf16{0xFFFF});
    map.assign(ids.size(), -1234);
  }
  void group(const layouts::ExpertWeights& e) {
    const int64_t hidden = layer.spec().hidden, intermediate = layer.spec().intermediate;
    const size_t code_at = w1.size(), sf_at = w1_sf.size();
    const int64_t cols = hidden / kNvBlock;
    w1.resize(code_at + static_cast<size_t>(intermediate * hidden));
    w1_sf.resize(sf_at + static_cast<size_t>(
                             layouts::scale_bytes(ScaleLayout::k128x4, 2 * intermediate, cols)));
    for (int64_t c = 0; c < intermediate; ++c) {
      for (const bool is_gate : {false, true}) {
        const layouts::WeightView& w = is_gate ? e.gate : e.up;
        const int64_t row = layouts::grouped_stored_row({c, is_gate});
        std::copy_n(w.codes + c * w.code_stride, hidden / 2,
                    w1.begin() + static_cast<int64_t>(code_at) + row * hidden / 2);
        for (int64_t b = 0; b < cols; ++b) {
          w1_sf[sf_at + static_cast<size_t>(layouts::scale_offset(
                            ScaleLayout::k128x4, cols, row, b))] = w.scales[c * w.scale_stride + b];
        }
      }
    }
    const int64_t i_cols = intermediate / kNvBlock;
    const size_t down_sf_at = w2_sf.size();
    w2.insert(w2.end(), e.down.codes, e.down.codes + hidden * intermediate / 2);
    w2_sf.resize(down_sf_at +
                 static_cast<size_t>(layouts::scale_bytes(ScaleLayout::k128x4, hidden, i_cols)));
    for (int64_t n = 0; n < hidden; ++n) {
      for (int64_t b = 0; b < i_cols; ++b) {
        w2_sf[down_sf_at +
              static_cast<size_t>(layouts::scale_offset(ScaleLayout::k128x4, i_cols, n, b))] =
            e.down.scales[n * e.down.scale_stride + b];
      }
    }
  }
  GroupedMoeArgs args() {
    return {.x = x.data(),
            .topk_ids = ids.data(),
            .w1 = w1.data(),
            .w1_sf = w1_sf.data(),
            .w1_alpha = alpha1.data(),
            .w2 = w2.data(),
            .w2_sf = w2_sf.data(),
            .w2_alpha = alpha2.data(),
            .tokens = tokens,
            .top_k = kTopK,
            .experts = 5,
            .hidden = layer.spec().hidden,
            .intermediate = layer.spec().intermediate,
            .y = y.data(),
            .expanded_to_permuted = map.data()};
  }
};

TEST(GroupedMoe, GivesTheEnginesBytesForEveryRouteTile) {
  for (const int64_t tokens : {0, 1, 9, 511, 600, 2100, 4096}) {
    Problem p(tokens);
    ThreadPool pool(2);
    grouped_moe(p.args(), best_panel_dot(), pool);
    const ExpertsOutput want = run_layer(p.layer, p.x, p.ids, kTopK, best_panel_dot(), pool);
    const int64_t hidden = p.layer.spec().hidden;
    std::vector<int32_t> next(5, -1);  // row of an expert's next slot
    std::vector<Bf16> y(p.y.size(), Bf16{0xFFFF});
    for (size_t slot = 0; slot < p.ids.size(); ++slot) {
      const int32_t id = p.ids[slot];
      ASSERT_EQ(p.map[slot] < 0, id < 0 || id >= 5);
      if (p.map[slot] < 0) continue;
      int32_t& row = next[static_cast<size_t>(id)];
      if (row < 0) {
        ASSERT_EQ(p.map[slot] % p.tile, 0) << "an expert's first row";
      }
      if (row >= 0) {
        ASSERT_EQ(p.map[slot], row) << "slots ascending";
      }
      row = p.map[slot] + 1;
      std::copy_n(want.rows.begin() + want.permuted[slot] * hidden, hidden,
                  y.begin() + p.map[slot] * hidden);
    }
    EXPECT_EQ(p.y, y) << tokens << " tokens";
  }
}

// Each number to a BF16 step and a share of what rows are on average, as sums cancel.
void expect_near(const std::vector<Bf16>& got, const std::vector<Bf16>& want, double share) {
  double error = 0, mass = 0, count = 0;
  const auto value = [](Bf16 v) { return static_cast<double>(formats::bf16_to_f32(v)); };
  for (size_t i = 0; i < want.size(); ++i) {
    if (got[i].bits == 0xFFFF) continue;
    const double d = value(got[i]) - value(want[i]);
    error += d * d;
    mass += value(want[i]) * value(want[i]);
    ++count;
  }
  EXPECT_LE(error, 1e-7 * mass);  // few elements lie near a tie
  EXPECT_GT(mass, 0);
  const double average = std::sqrt(mass / count);
  for (size_t i = 0; i < want.size(); ++i) {
    if (got[i].bits == 0xFFFF) continue;
    EXPECT_LE(std::fabs(value(got[i]) - value(want[i])),
              0x1p-7 * std::fabs(value(want[i])) + share * average)
        << i;
  }
}

TEST(GroupedMoe, AgreesWithTheReference) {
  for (const PanelDot* dot : {&kPanelDotPortable, &best_panel_dot()}) {
    for (const Precision precision : {Precision::kFast, Precision::kExact}) {
      Problem p(9);
      reference::grouped_moe(p.args());
      const auto want = p.y;
      const auto map = p.map;
      p.y.assign(p.y.size(), Bf16{0xFFFF});
      InlineExecutor one;
      GroupedMoeArgs args = p.args();
      args.precision = precision;
      grouped_moe(args, *dot, one);
      EXPECT_EQ(p.map, map);
      expect_near(p.y, want, precision == Precision::kFast ? 0x1p-11 : 0x1p-16);
    }
  }
}

}  // namespace
}  // namespace octet::cpu
