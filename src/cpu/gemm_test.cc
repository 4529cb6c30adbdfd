// SPDX-License-Identifier: Apache-2.0
// gemm1 and gemm2 against the layer's own engine (the same arithmetic: the same bytes) and against the reference.
#include <cmath>
#include <gtest/gtest.h>

#include "cpu/ops.h"
#include "cpu/test_layer.h"
#include "cpu/thread_pool.h"
#include "layouts/prepared.h"
#include "reference/reference.h"
#include "routing/record.h"

namespace octet::cpu {
namespace {

using Bytes = std::vector<uint8_t>;
constexpr int64_t kTopK = 3;

TestLayerShape shape_of(int64_t intermediate) {
  return {.activations = Activations::kMxfp8,
          .hidden = 128,
          .intermediate = intermediate,
          .experts = 4,
          .swiglu = {.limit = 4}};
}

// A layer in checkpoint order and in prepared order, its input and its record; outputs full of 0xFF.
struct Problem {
  TestLayer layer;
  int64_t tokens, ctas, padded;
  std::vector<Bf16> x;
  std::vector<int32_t> ids, permuted, record;
  Bytes w13, w13_scale, w2, w2_scale;
  std::vector<float> clamp;
  ExpertsOutput want;  // of the layer's engine
  Bytes h_values, h_scales;
  std::vector<Bf16> rows;

  Problem(int64_t num_tokens, int64_t intermediate)
      : layer(shape_of(intermediate)),
        tokens(num_tokens),
        padded(layouts::padded_intermediate(intermediate)) {
    const LayerSpec& s = layer.spec();
    x = layer.random_x(tokens);
    ids = layer.random_ids(tokens, kTopK);
    ctas = routing::max_ctas(tokens, kTopK, s.local_experts);
    permuted.resize(ids.size());
    record.resize(static_cast<size_t>(routing::record_words(ctas)));
    routing::route({{ids.data()}, tokens, kTopK, s.local_experts, permuted.data(), record.data()});
    prepare();
    InlineExecutor one;
    want = run_layer(layer, x, ids, kTopK, best_panel_dot(), one);
    poison();
  }
  void poison() {
    const auto num_rows = static_cast<size_t>(8 * ctas);
    h_values.assign(num_rows * static_cast<size_t>(padded), 0xFF);
    h_scales.assign(static_cast<size_t>(ctas * padded * 4), 0xFF);
    rows.assign(static_cast<size_t>(8 * tokens * kTopK * layer.spec().hidden), Bf16{0xFFFF});
  }
  void prepare() {
    const LayerSpec& s = layer.spec();
    Bytes gate, up, gate_scale, up_scale, down, down_scale;
    const auto append = [](const layouts::WeightView& v, Bytes& codes, Bytes& scales) {
      codes.insert(codes.end(), v.codes, v.codes + v.rows * v.code_stride);
      scales.insert(scales.end(), v.scales, v.scales + v.rows * v.scale_stride);
    };
    for (const layouts::ExpertWeights& e : layer.experts) {
      append(e.gate, gate, gate_scale);
      append(e.up, up, up_scale);
      append(e.down, down, down_scale);
    }
    const auto w13_elems = static_cast<size_t>(s.local_experts * 2 * padded * s.hidden);
    w13.resize(w13_elems / 2), w13_scale.resize(w13_elems / 32);
    w2.resize(w13_elems / 4), w2_scale.resize(w13_elems / 64);
    clamp.resize(static_cast<size_t>(s.local_experts));
    InlineExecutor executor;
    layouts::prepare({gate.data(), up.data(), gate_scale.data(), up_scale.data(), down.data(),
                      down_scale.data(), s.swiglu.limit, s.local_experts, s.hidden, s.intermediate,
                      w13.data(), w13_scale.data(), w2.data(), w2_scale.data(), clamp.data()},
                     executor);
  }
  Gemm1Args gemm1_args() {
    const LayerSpec& s = layer.spec();
    return {want.x_quant.data(),
            want.x_scale.data(),
            record.data(),
            w13.data(),
            w13_scale.data(),
            clamp.data(),
            tokens,
            kTopK,
            s.local_experts,
            s.hidden,
            padded,
            s.intermediate,
            h_values.data(),
            h_scales.data()};
  }
  Gemm2Args gemm2_args() {
    const LayerSpec& s = layer.spec();
    return {h_values.data(), h_scales.data(), record.data(), w2.data(), w2_scale.data(), tokens,
            kTopK,           s.local_experts, s.hidden,      padded,    rows.data()};
  }
};

TEST(Gemm1, GivesTheEnginesBytesAndWritesOnlyRoutedRows) {
  for (const int64_t tokens : {1, 8, 40}) {
    for (const int64_t intermediate : {32, 96, 160}) {
      Problem p(tokens, intermediate);
      ThreadPool pool(2);
      gemm1(p.gemm1_args(), best_panel_dot(), pool);
      Bytes values(p.h_values.size(), 0xFF), scales(p.h_scales.size(), 0xFF);
      const int64_t blocks = intermediate / kMxBlock;
      for (size_t slot = 0; slot < p.ids.size(); ++slot) {
        const int64_t row = p.permuted[slot], from = p.want.permuted[slot];
        if (row < 0) continue;
        for (int64_t c = 0; c < p.padded; ++c) {
          values[static_cast<size_t>(row * p.padded + c)] =
              c < intermediate ? p.want.h_values[static_cast<size_t>(from * intermediate + c)]
                               : uint8_t{0};
        }
        for (int64_t b = 0; b < p.padded / kMxBlock; ++b) {
          scales[static_cast<size_t>(layouts::h_scale_offset(row, b, p.padded))] =
              b < blocks ? p.want.h_scales[static_cast<size_t>(from * blocks + b)] : uint8_t{127};
        }
      }
      EXPECT_EQ(p.h_values, values) << tokens << " tokens, I " << intermediate;
      EXPECT_EQ(p.h_scales, scales) << tokens << " tokens, I " << intermediate;
    }
  }
}

TEST(Gemm1, PadsInsideAnUnfinishedBlock) {
  Problem p(8, 96);
  Gemm1Args args = p.gemm1_args();
  InlineExecutor one;
  gemm1(args, best_panel_dot(), one);
  const Bytes whole = p.h_values;
  p.poison();
  args.intermediate = 80;  // as if columns 80 ... 95 were padding
  gemm1(args, best_panel_dot(), one);
  for (const int32_t row : p.permuted) {
    if (row < 0) continue;
    for (int64_t c = 0; c < p.padded; ++c) {
      const auto i = static_cast<size_t>(row * p.padded + c);
      if (c < 64) {
        EXPECT_EQ(p.h_values[i], whole[i]) << c;
      }
      if (c >= 80) {
        EXPECT_EQ(p.h_values[i], 0) << c;
      }
    }
    EXPECT_EQ(p.h_scales[static_cast<size_t>(layouts::h_scale_offset(row, 3, p.padded))], 127);
  }
}

TEST(Gemm1, AgreesWithTheReference) {
  Problem p(8, 96);
  InlineExecutor one;
  for (const PanelDot* dot : {&kPanelDotPortable, &best_panel_dot()}) {
    p.poison();
    reference::gemm1(p.gemm1_args());
    const Bytes values = p.h_values, scales = p.h_scales;
    p.poison();
    gemm1(p.gemm1_args(), *dot, one);
    EXPECT_EQ(p.h_scales, scales);
    size_t ties = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_LE(std::abs(values[i] - p.h_values[i]), 1) << i;
      ties += values[i] != p.h_values[i] ? 1U : 0U;
    }
    EXPECT_LE(ties, values.size() / 1000);
  }
}

TEST(Gemm2, GivesTheEnginesBytesAndWritesOnlyRoutedRows) {
  for (const int64_t tokens : {1, 8, 40}) {
    for (const int64_t intermediate : {32, 96, 160}) {
      Problem p(tokens, intermediate);
      ThreadPool pool(2);
      gemm1(p.gemm1_args(), best_panel_dot(), pool);
      gemm2(p.gemm2_args(), best_panel_dot(), pool);
      const auto hidden = static_cast<size_t>(p.layer.spec().hidden);
      std::vector<Bf16> want(p.rows.size(), Bf16{0xFFFF});
      for (size_t slot = 0; slot < p.ids.size(); ++slot) {
        if (p.permuted[slot] < 0) continue;
        std::copy_n(p.want.rows.begin() + p.want.permuted[slot] * p.layer.spec().hidden, hidden,
                    want.begin() + p.permuted[slot] * p.layer.spec().hidden);
      }
      EXPECT_EQ(p.rows, want) << tokens << " tokens, I " << intermediate;
    }
  }
}

TEST(Gemm2, AgreesWithTheReference) {
  Problem p(8, 96);
  InlineExecutor one;
  gemm1(p.gemm1_args(), best_panel_dot(), one);
  reference::gemm2(p.gemm2_args());
  const auto want = p.rows;
  for (const PanelDot* dot : {&kPanelDotPortable, &best_panel_dot()}) {
    p.rows.assign(p.rows.size(), Bf16{0xFFFF});
    gemm2(p.gemm2_args(), *dot, one);
    size_t ties = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_LE(std::abs(want[i].bits - p.rows[i].bits), 1) << i;
      ties += want[i] != p.rows[i] ? 1U : 0U;
    }
    EXPECT_LE(ties, want.size() / 1000);
  }
}

// Rows at the ends of what MXFP8 holds: every block under `scale`, every number `code`, against weights of `weight_scale`
// that bring the sums back; `spans`: the first block is 448 under code 254 besides, its weights are 0.
struct End {
  uint8_t scale, code, weight_scale;
  bool spans;
};
constexpr End kEnds[] = {
    {0, 0x01, 246, false}, {0, 0x08, 246, false}, {2, 0x0B, 246, false}, {3, 0x01, 246, false},
    {0, 0x01, 251, false}, {254, 0x7E, 0, false}, {0, 0x01, 246, true},  {3, 0x81, 246, true},
};

// A row of codes, its scales by place, and the first block's weights.
void plant_row(const End& end, uint8_t* codes, int64_t width) {
  std::fill_n(codes, width, end.code);
  if (end.spans) std::fill_n(codes, kMxBlock, uint8_t{0x7E});
}
uint8_t planted_scale(const End& end, int64_t block) {
  return end.spans && block == 0 ? uint8_t{254} : end.scale;
}
void plant_weights(const End& end, int64_t width, Bytes& codes, Bytes& scales) {
  std::fill(scales.begin(), scales.end(), end.weight_scale);
  if (!end.spans) return;
  for (auto row = codes.begin(); row != codes.end(); row += width / 2)
    std::fill_n(row, kMxBlock / 2, uint8_t{0});
}

TEST(Gemm1, TakesRowsAtTheEndsOfTheirScales) {
  for (const End& end : kEnds) {
    Problem p(2, 32);
    const int64_t hidden = p.layer.spec().hidden;
    for (int64_t token = 0; token < p.tokens; ++token) {
      plant_row(end, p.want.x_quant.data() + token * hidden, hidden);
      for (int64_t b = 0; b < hidden / kMxBlock; ++b)
        p.want.x_scale[static_cast<size_t>(token * hidden / kMxBlock + b)] = planted_scale(end, b);
    }
    plant_weights(end, hidden, p.w13, p.w13_scale);
    p.poison();
    reference::gemm1(p.gemm1_args());
    const Bytes values = p.h_values, scales = p.h_scales;
    InlineExecutor one;
    for (const PanelDot* dot : {&kPanelDotPortable, &best_panel_dot()}) {
      p.poison();
      gemm1(p.gemm1_args(), *dot, one);
      EXPECT_EQ(p.h_scales, scales) << int{end.scale} << " " << int{end.code};
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_LE(std::abs(values[i] - p.h_values[i]), 1) << int{end.scale} << " at " << i;
    }
  }
}

TEST(Gemm2, TakesRowsAtTheEndsOfTheirScales) {
  for (const End& end : kEnds) {
    Problem p(3, 160);
    InlineExecutor one;
    for (int64_t row = 0; row < 8 * p.ctas; ++row) {
      plant_row(end, p.h_values.data() + row * p.padded, p.padded);
      for (int64_t b = 0; b < p.padded / kMxBlock; ++b) {
        const auto at = static_cast<size_t>(layouts::h_scale_offset(row, b, p.padded));
        p.h_scales[at] = planted_scale(end, b);
      }
    }
    plant_weights(end, p.padded, p.w2, p.w2_scale);
    reference::gemm2(p.gemm2_args());
    const auto want = p.rows;
    for (const PanelDot* dot : {&kPanelDotPortable, &best_panel_dot()}) {
      p.rows.assign(p.rows.size(), Bf16{0xFFFF});
      gemm2(p.gemm2_args(), *dot, one);
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_LE(std::abs(want[i].bits - p.rows[i].bits), 1)
            << int{end.scale} << " " << int{end.code} << " at " << i;
      }
    }
  }
}

// A record is the caller's: whatever it says, nothing outside the tensors is touched (the sanitizers watch).
TEST(Gemm1, SurvivesAHostileRecord) {
  Problem p(8, 32);
  InlineExecutor one;
  for (const int32_t value : {-1, -2147483647, 4, 100000, 2147483647}) {
    std::fill(p.record.begin(), p.record.end(), value);
    gemm1(p.gemm1_args(), best_panel_dot(), one);
    gemm2(p.gemm2_args(), best_panel_dot(), one);
    p.record[1] = static_cast<int32_t>(p.ctas);
    std::fill_n(p.record.begin() + 4, p.ctas, 0);
    gemm1(p.gemm1_args(), best_panel_dot(), one);
    gemm2(p.gemm2_args(), best_panel_dot(), one);
  }
}

TEST(PreparedPanels, RunTheLayerToTheSameBytes) {
  for (const int64_t intermediate : {32, 96, 160}) {
    Problem p(9, intermediate);
    const LayerSpec& s = p.layer.spec();
    const PreparedPanels panels({p.w13.data(), p.w13_scale.data(), p.w2.data(), p.w2_scale.data(),
                                 p.clamp.data(), s.local_experts, s.hidden, p.padded,
                                 s.intermediate});
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      EXPECT_EQ(run_layer(p.layer, p.x, p.ids, kTopK, best_panel_dot(), pool, &panels), p.want);
    }
    p.w13[7] ^= 0x35;  // new values at the same address are seen
    p.clamp[0] = 0.5F;
    InlineExecutor one;
    EXPECT_NE(run_layer(p.layer, p.x, p.ids, kTopK, best_panel_dot(), one, &panels), p.want);
  }
}

}  // namespace
}  // namespace octet::cpu
