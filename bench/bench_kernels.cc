// SPDX-License-Identifier: Apache-2.0
// Inner loops in cache, without memory in the way: what a kernel could do if weights cost nothing. Whole layers with cold weights
// are timed by `octet bench`.
//
// Timed: one call on data that stays in the second-level cache; nothing is allocated or filled inside the timed region.
// Rates: items = weights x rows, bytes = panel bytes.
#include <algorithm>
#include <benchmark/benchmark.h>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/executor.h"
#include "core/tensor.h"
#include "cpu/integer_rows.h"
#include "cpu/ops.h"
#include "cpu/panel_dot.h"
#include "formats/bf16.h"
#include "layouts/panel.h"

namespace octet {
namespace {

Tensor random_panel(WeightFormat format, int64_t num_blocks) {
  Tensor panel(Dtype::kU8, {layouts::panel_bytes(format, num_blocks)});
  std::mt19937 rng(1);
  for (int64_t i = 0; i < layouts::panel_payload_bytes(format, num_blocks); ++i) {
    const bool is_scale = layouts::panel_byte(format, num_blocks, i).is_scale;
    const auto ordinary = format == WeightFormat::kMxfp4 ? 119 + rng() % 5 : 0x30 + rng() % 16;
    panel.as<uint8_t>()[i] = static_cast<uint8_t>(is_scale ? ordinary : rng() % 256);
  }
  return panel;
}

constexpr int64_t kWidth = 5120;

// A panel times state.range(0) rows, in calls of up to `most_rows`: call(first row, rows of the call).
template <class Call>
void time_rows(benchmark::State& state, WeightFormat format, int most_rows, const Call& call) {
  const int rows = static_cast<int>(state.range(0));
  for (auto _ : state) {
    for (int row = 0; row < rows; row += most_rows) call(row, std::min(most_rows, rows - row));
  }
  state.SetItemsProcessed(state.iterations() * kWidth * layouts::kPanelRows * rows);
  state.SetBytesProcessed(state.iterations() *
                          layouts::panel_payload_bytes(format, kWidth / scale_block(format)));
}

void float_dot(benchmark::State& state, const cpu::FloatDot& dot, WeightFormat format) {
  const int64_t num_blocks = kWidth / scale_block(format);
  const Tensor panel = random_panel(format, num_blocks);
  const std::vector<float> x(static_cast<size_t>(kWidth), 1.5F);
  const float* const rows[cpu::kMostFloatRows] = {x.data(), x.data(), x.data(), x.data()};
  float out[cpu::kMostFloatRows * layouts::kPanelRows];
  time_rows(state, format, cpu::kMostFloatRows, [&](int, int count) {
    dot.dot(panel.as<uint8_t>(), num_blocks, rows, count, out);
    benchmark::DoNotOptimize(out);
  });
}

// Rows of Gaussian BF16 numbers: with three planes a block in a few has third digits.
void integer_dot(benchmark::State& state, const cpu::IntegerDot& dot,
                 const cpu::IntegerLayout& layout) {
  const Tensor panel = random_panel(layout.format, layout.num_blocks);
  const int64_t num_rows = state.range(0);
  std::mt19937 rng(3);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(kWidth));
  Tensor integers(Dtype::kU8, {num_rows * layout.row_bytes()});
  std::vector<const uint8_t*> rows;
  for (int64_t row = 0; row < num_rows; ++row) {
    for (float& v : x) v = formats::bf16_to_f32(formats::bf16_from_f32(normal(rng)));
    uint8_t* const to = integers.as<uint8_t>() + row * layout.row_bytes();
    if (!dot.encode(x.data(), layout.num_blocks, to)) return state.SkipWithError("not encoded");
    rows.push_back(to);
  }
  const uint8_t* const data = panel.as<uint8_t>();
  const cpu::Streaming how = cpu::streaming();
  const cpu::PanelStream stream{data,
                                {data + layouts::panel_bytes(layout.format, layout.num_blocks), 0,
                                 how.bytes, how.into_first}};
  float out[cpu::kMostCallRows * layouts::kPanelRows];
  time_rows(state, layout.format, dot.most_rows, [&](int first, int count) {
    dot.dot({&stream, 1}, layout.num_blocks, rows.data() + first, count, out);
    benchmark::DoNotOptimize(out);
  });
}

void quantize(benchmark::State& state) {
  constexpr int64_t kTokens = 8;
  std::vector<Bf16> x(kTokens * kWidth);
  std::mt19937 rng(2);
  std::normal_distribution<float> normal;
  for (Bf16& v : x) v = formats::bf16_from_f32(normal(rng));
  std::vector<uint8_t> codes(x.size()), scales(x.size() / kMxBlock);
  InlineExecutor executor;
  for (auto _ : state) {
    cpu::mxfp8_quantize({.x = x.data(),
                         .tokens = kTokens,
                         .width = kWidth,
                         .layout = ScaleLayout::kLinear,
                         .x_quant = codes.data(),
                         .x_scale = scales.data()},
                        executor);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * kTokens * kWidth);
}

BENCHMARK(quantize);

// One for each kernel of an instruction set: dot/FORMAT/ISA/float, .../few/PLANES, .../many/PLANES, then the rows.
void register_dots(const cpu::IsaInfo& isa, WeightFormat format) {
  std::string name(isa.which_has.empty() ? "portable" : isa.which_has);
  std::ranges::replace(name, ' ', '_');
  name = "dot/" + std::string(name_of(format)) + "/" + name;
  const cpu::FloatDot floats = isa.dot->of(format, 2).floats;
  benchmark::RegisterBenchmark((name + "/float").c_str(), float_dot, floats, format)
      ->DenseRange(1, cpu::kMostFloatRows);
  for (const int planes : {2, 3}) {
    const cpu::RowDot dot = isa.dot->of(format, planes);
    const cpu::IntegerLayout layout{format, planes, kWidth / scale_block(format)};
    const auto add = [&](const cpu::IntegerDot* kernel, const std::string& kind) {
      if (kernel == nullptr) return;
      auto* const bench = benchmark::RegisterBenchmark(
          (name + "/" + kind + "/" + std::to_string(planes)).c_str(), integer_dot, *kernel, layout);
      for (const int rows : {1, 2, 3, 4, 8, 32}) bench->Arg(rows);
    };
    add(dot.few, "few");
    add(dot.many, "many");
  }
}
const bool kHasDots = [] {
  for (const cpu::IsaInfo& isa : cpu::isas()) {
    for (const WeightFormat format : {WeightFormat::kMxfp4, WeightFormat::kNvfp4}) {
      if (isa.is_here()) register_dots(isa, format);
    }
  }
  return true;
}();

}  // namespace
}  // namespace octet
