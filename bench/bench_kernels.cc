// SPDX-License-Identifier: Apache-2.0
// Inner loops in cache, without memory in the way: what a kernel could do if weights cost nothing. Whole layers with cold weights
// are timed by `octet bench`.
//
// Timed: one call on data that stays in the second-level cache; nothing is allocated or filled inside the timed region.
// Rates: items = weights x rows, bytes = panel bytes.
#include <benchmark/benchmark.h>
#include <cstdint>
#include <random>
#include <vector>

#include "core/executor.h"
#include "core/tensor.h"
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
    const unsigned ordinary = format == WeightFormat::kMxfp4 ? 119 + rng() % 5 : 0x30 + rng() % 16;
    panel.as<uint8_t>()[i] = static_cast<uint8_t>(is_scale ? ordinary : rng() % 256);
  }
  return panel;
}

void panel_dot(benchmark::State& state, const cpu::PanelDot& dot, WeightFormat format) {
  constexpr int64_t kWidth = 5120;
  const int rows = static_cast<int>(state.range(0));
  const int64_t num_blocks = kWidth / scale_block(format);
  const Tensor panel = random_panel(format, num_blocks);
  const std::vector<float> x(static_cast<size_t>(kWidth), 1.5F);
  const float* const row_pointers[cpu::kMaxDotRows] = {x.data(), x.data(), x.data(), x.data()};
  float out[cpu::kMaxDotRows * layouts::kPanelRows];
  for (auto _ : state) {
    dot.of(format, 2).floats.dot(panel.as<uint8_t>(), num_blocks, row_pointers, rows, out);
    benchmark::DoNotOptimize(out);
  }
  state.SetItemsProcessed(state.iterations() * kWidth * layouts::kPanelRows * rows);
  state.SetBytesProcessed(state.iterations() * layouts::panel_payload_bytes(format, num_blocks));
}

void quantize(benchmark::State& state) {
  constexpr int64_t kTokens = 8;
  constexpr int64_t kWidth = 5120;
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

BENCHMARK_CAPTURE(panel_dot, mxfp4_portable, cpu::kPanelDotPortable, WeightFormat::kMxfp4)
    ->DenseRange(1, 4);
BENCHMARK_CAPTURE(panel_dot, nvfp4_portable, cpu::kPanelDotPortable, WeightFormat::kNvfp4)
    ->DenseRange(1, 4);
BENCHMARK(quantize);

const bool kHasAvx2 = [] {
  if (!cpu::has_avx2()) return false;
  for (const WeightFormat format : {WeightFormat::kMxfp4, WeightFormat::kNvfp4}) {
    const std::string name = "panel_dot/" + std::string(name_of(format)) + "_avx2";
    benchmark::RegisterBenchmark(name.c_str(), panel_dot, cpu::kPanelDotAvx2, format)
        ->DenseRange(1, 4);
  }
  return true;
}();

}  // namespace
}  // namespace octet
