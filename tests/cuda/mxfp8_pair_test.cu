// SPDX-License-Identifier: Apache-2.0
// Needs an SM 9.0 device. up and down on Hopper's FP8 unit: h and rows against float64 with the room of semantics.md section 12; a row alone
// and the same row among others, any grid, poisoned memory: bytes.
#include <cstring>
#include <gtest/gtest.h>

#include "core/executor.h"
#include "cpu/ops.h"
#include "cuda/front.h"
#include "pair_layer.h"
#include "sm90/experts_mxfp8.h"
#include "sm90/launch_word.cuh"

namespace octet::cuda {
namespace {

constexpr uint8_t kPoison = 0xFF;

// A layer on the device and one workspace.
class PairOnDevice {
 public:
  explicit PairOnDevice(const PairLayer& layer, bool force_wide = false)
      : layer_(layer),
        weights_(layer.packed(is_wide_)),
        limits_(layer.limits),
        gate_bias_(layer.gate_bias),
        up_bias_(layer.up_bias),
        down_bias_(layer.down_bias) {
    is_wide_ = is_wide_ || force_wide;
    EXPECT_TRUE(sm90::prepare_experts().ok());
  }

  struct Result {
    std::vector<Bf16> rows;            // [T k, H], 0xFFFF where nothing was written
    std::vector<int32_t> slot_row;     // [T, k]
    std::vector<uint8_t> h, h_scales;  // [T k, I], [T k, I/32]; of local slots
    std::vector<Bf16> y;               // [T, H]
    bool operator==(const Result&) const = default;
  };

  Result run(const PairInput& in, int ctas, int64_t first_expert = 0, bool wants_y = true) {
    const PairShape& shape = layer_.shape;
    const int64_t slots = in.tokens * in.top_k;
    const OnDevice<uint8_t> codes(in.codes), scales(in.scales);
    const OnDevice<int32_t> ids(in.ids), permuted(std::vector<int32_t>(size_of(slots), -7)),
        record(std::vector<int32_t>(size_of(routing::record_words(ctas_of(in))), -7)),
        slot_row(std::vector<int32_t>(size_of(slots), -7));
    const OnDevice<Bf16> rows(std::vector<Bf16>(size_of(slots * shape.hidden + 64), Bf16{0xFFFF}));
    ExpertGemmArgs a = args(in);
    a.x_quant = codes.get();
    a.x_scale = scales.get();
    a.record = record.get();
    a.permuted = permuted.get();
    a.rows = rows.get();
    a.slot_row = slot_row.get();
    const sm90::ExpertsWorkspace at = sm90::experts_workspace(a);
    const OnDevice<uint8_t> workspace(std::vector<uint8_t>(size_of(at.bytes + 256), kPoison));
    a.workspace = workspace.get();
    a.workspace_bytes = at.bytes;
    const Status routed = launch_route({.topk_ids = {ids.get(), false},
                                        .tokens = in.tokens,
                                        .top_k = in.top_k,
                                        .experts = shape.experts,
                                        .permuted = permuted.get(),
                                        .record = record.get(),
                                        .first_expert = first_expert},
                                       nullptr);
    EXPECT_TRUE(routed.ok()) << routed.why;
    const OnDevice<float> weights(in.weights);
    const OnDevice<Bf16> y(std::vector<Bf16>(size_of(in.tokens * shape.hidden), Bf16{0xFFFF}));
    sm90::ExpertsArgs all{.gemm = a, .topk_weights = weights.get(), .scale = 1.5F};
    if (wants_y) all.y = y.get();
    const Status fits = sm90::check_experts(all);
    EXPECT_TRUE(fits.ok()) << fits.why;
    const Status ready = sm90::launch_make_ready(all, nullptr);
    EXPECT_TRUE(ready.ok()) << ready.why;
    const Status ran = sm90::launch_experts(all, ctas, nullptr);
    EXPECT_TRUE(ran.ok()) << ran.why;
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << cudaGetErrorString(cudaGetLastError());
    Result r{rows.back(), slot_row.back(), {}, {}, y.back()};
    for (size_t i = size_of(slots * shape.hidden); i < r.rows.size(); ++i)
      EXPECT_EQ(r.rows[i].bits, 0xFFFF) << "guard";
    const auto memory = workspace.back();
    for (size_t i = size_of(at.bytes); i < memory.size(); ++i)
      EXPECT_EQ(memory[i], kPoison) << "guard";
    sm90::LaunchWord word{};
    std::memcpy(&word, memory.data() + sm90::ExpertsWorkspace::kWordAt, sizeof word);
    const uint8_t* const half =
        memory.data() + sm90::ExpertsWorkspace::kHalvesAt + word.last_half() * at.half_bytes;
    if (wants_y)
      std::memcpy(static_cast<void*>(r.rows.data()), half + at.rows_at,
                  size_of(slots * shape.hidden) * sizeof(Bf16));
    read_h(in, half + at.h_at, at.h_bytes / ctas_of(in), permuted.back(), record.back(), r);
    return r;
  }

  int64_t ctas_of(const PairInput& in) const {
    return routing::max_ctas(in.tokens, in.top_k, layer_.shape.experts);
  }
  ExpertGemmArgs args(const PairInput& in) const {
    const PairShape& shape = layer_.shape;
    ExpertGemmArgs a;
    a.weights.data = weights_.get();
    a.weights.sizes = layouts::stream_sizes(layer_.expert(0));
    a.weights.order = layouts::StreamOrder::kE4m3;
    a.weights.is_wide = is_wide_;
    a.weights.experts = shape.experts;
    a.weights.limit = limits_.get();
    if (shape.has_biases) {
      a.weights.gate_bias = gate_bias_.get();
      a.weights.up_bias = up_bias_.get();
      a.weights.down_bias = down_bias_.get();
    }
    a.tokens = in.tokens;
    a.top_k = in.top_k;
    a.hidden = shape.hidden;
    a.intermediate = shape.intermediate;
    a.activations = Activations::kMxfp8;
    a.alpha = shape.swiglu.alpha;
    a.beta = shape.swiglu.beta;
    return a;
  }

 private:
  // From activation records, by their drawing.
  void read_h(const PairInput& in, const uint8_t* h, int64_t tile_bytes,
              const std::vector<int32_t>& permuted, const std::vector<int32_t>& record,
              Result& r) const {
    const int64_t inter = layer_.shape.intermediate, slots = in.tokens * in.top_k;
    const routing::RecordView view(record.data(),
                                   routing::max_ctas(in.tokens, in.top_k, layer_.shape.experts));
    r.h.assign(size_of(slots * inter), kPoison);
    r.h_scales.assign(size_of(slots * inter / kMxBlock), kPoison);
    for (int64_t s = 0; s < slots; ++s) {
      const int64_t row = permuted[size_of(s)];
      if (row < 0) continue;
      const int64_t tile = row / 8, rows = (view.limit[tile] - tile * 8 + 1) / 2 * 2;
      const uint8_t* from = h + tile * tile_bytes;
      for (int64_t c = 0; c < inter; ++c) {
        const uint8_t* piece = from + c / 64 * 72 * rows;
        r.h[size_of(s * inter + c)] = piece[(c % 64 / 16 * rows + row % 8) * 16 + c % 16];
        if (c % 32 != 0) continue;
        uint32_t bits = 0;
        std::memcpy(&bits, piece + 64 * rows + (c % 64 / 32 * rows + row % 8) * 4, 4);
        r.h_scales[size_of((s * inter + c) / 32)] =
            static_cast<uint8_t>(bits == 0x400000     ? 0
                                 : bits == 0x7FFFFFFF ? 255
                                                      : bits >> 23);
      }
    }
  }

  const PairLayer& layer_;
  bool is_wide_ = false;
  OnDevice<uint8_t> weights_;
  OnDevice<float> limits_;
  OnDevice<Bf16> gate_bias_, up_bias_, down_bias_;
};

void expect_right(const PairLayer& layer, const PairInput& in, const PairOnDevice::Result& r) {
  PairVerdict verdict;
  judge_pair(layer, in, r.h, r.h_scales, r.rows, verdict);
  EXPECT_EQ(verdict.h_outside, 0) << "of " << verdict.h_elems;
  EXPECT_EQ(verdict.rows_outside, 0) << "of " << verdict.row_elems;
  std::vector<Bf16> y(r.y.size());
  InlineExecutor one;
  cpu::finalize({.rows = r.rows.data(),
                 .topk_weights = in.weights.data(),
                 .permuted = r.slot_row.data(),
                 .scale = 1.5F,
                 .tokens = in.tokens,
                 .top_k = in.top_k,
                 .hidden = layer.shape.hidden,
                 .y = y.data()},
                one);
  for (size_t i = 0; i < y.size(); ++i) {
    if (std::isnan(formats::bf16_to_f32(y[i])) && std::isnan(formats::bf16_to_f32(r.y[i])))
      continue;
    ASSERT_EQ(r.y[i], y[i]) << "finalize of the rows, element " << i;
  }
}
std::vector<Bf16> slot_rows(const PairOnDevice::Result& r, int64_t first, int64_t count,
                            int64_t hidden) {
  return {r.rows.begin() + first * hidden, r.rows.begin() + (first + count) * hidden};
}

// The common shape, shapes with 1 to 14 stages, last pairs and last units that are not full.
const PairShape kShapes[] = {
    {.hidden = 5120, .intermediate = 576, .experts = 12},
    {.hidden = 2880,
     .intermediate = 2880,
     .experts = 2,
     .has_biases = true,
     .swiglu = {.limit = 7.0F, .alpha = 1.702F, .beta = 1.0F}},
    {.hidden = 2048, .intermediate = 512, .experts = 5, .has_biases = false, .swiglu = {}},
    {.hidden = 7168, .intermediate = 256, .experts = 3, .has_biases = false, .swiglu = {}},
    {.hidden = 608, .intermediate = 32, .experts = 9, .has_biases = true, .swiglu = {}},
    {.hidden = 32, .intermediate = 96, .experts = 40, .has_biases = false, .swiglu = {}},
    {.hidden = 1312, .intermediate = 1504, .experts = 4, .has_biases = false, .swiglu = {}},
};

TEST(Mxfp8Pair, IsTheReferenceWithinItsRoom) {
  std::mt19937 rng(1);
  for (const PairShape& shape : kShapes) {
    SCOPED_TRACE(testing::Message() << "H " << shape.hidden << ", I " << shape.intermediate);
    const PairLayer layer(shape);
    PairOnDevice device(layer);
    for (const int64_t tokens : {1, 3, 8}) {
      const PairInput in =
          random_input(shape, tokens, std::min<int64_t>(shape.experts, 6), shape.experts, rng);
      expect_right(layer, in, device.run(in, sm90::experts_ctas()));
    }
  }
}

TEST(Mxfp8Pair, GivesTheSameBytesOnAnyGridAndAlone) {
  std::mt19937 rng(2);
  for (const PairShape& shape : kShapes) {
    SCOPED_TRACE(testing::Message() << "H " << shape.hidden << ", I " << shape.intermediate);
    const PairLayer layer(shape);
    PairOnDevice device(layer);
    const int64_t top_k = std::min<int64_t>(shape.experts, 6);
    for (const int64_t tokens : {2, 5, 8}) {
      const PairInput in = random_input(shape, tokens, top_k, shape.experts, rng);
      const auto r = device.run(in, sm90::experts_ctas());
      for (const int ctas : {1, 7, 66, 100, 131, 132, 500}) {
        const auto again = device.run(in, ctas);
        EXPECT_TRUE(again.rows == r.rows && again.h == r.h && again.h_scales == r.h_scales &&
                    again.y == r.y)
            << ctas << " CTAs";
        EXPECT_EQ(again.slot_row, r.slot_row);
      }
      for (int64_t t = 0; t < tokens; ++t) {
        const auto alone = device.run(row_of(shape, in, t), sm90::experts_ctas());
        EXPECT_TRUE(slot_rows(alone, 0, top_k, shape.hidden) ==
                    slot_rows(r, t * top_k, top_k, shape.hidden))
            << "row " << t << " of " << tokens;
        EXPECT_TRUE(alone.y == std::vector<Bf16>(r.y.begin() + t * shape.hidden,
                                                 r.y.begin() + (t + 1) * shape.hidden))
            << "y of row " << t << " of " << tokens;
      }
    }
  }
}

TEST(Mxfp8Pair, TakesRoutingsThatHurt) {
  std::mt19937 rng(3);
  const PairShape shape{.hidden = 640, .intermediate = 96, .experts = 70};
  const PairLayer layer(shape);
  PairOnDevice device(layer);
  PairInput in = random_input(shape, 8, 8, shape.experts, rng);
  expect_right(layer, in, device.run(in, sm90::experts_ctas()));
  for (int64_t i = 0; i < 64; ++i)
    in.ids[size_of(i)] = static_cast<int32_t>(i % 8 == 0 ? 69 : i);  // one expert for all rows
  expect_right(layer, in, device.run(in, sm90::experts_ctas()));
  for (int64_t i = 1; i < 64; i += 2)
    in.ids[size_of(i)] = in.ids[size_of(i - 1)];  // twice in a row
  auto r = device.run(in, sm90::experts_ctas());
  for (size_t i = 0; i < 64; ++i)
    EXPECT_EQ(r.slot_row[i], static_cast<int32_t>(i / 2 * 2)) << "slot " << i;
  for (int32_t& id : in.ids) id = 3;  // eight times
  r = device.run(in, sm90::experts_ctas());
  EXPECT_EQ(r.slot_row[63], 56);
  for (int32_t& id : in.ids) id = -1;  // nobody's
  r = device.run(in, sm90::experts_ctas());
  for (const int32_t row : r.slot_row) EXPECT_EQ(row, -1);
  for (const Bf16 v : r.rows) EXPECT_EQ(v.bits, 0xFFFF);
}

TEST(Mxfp8Pair, KnowsOnlyItsRanksExperts) {
  std::mt19937 rng(4);
  const PairShape shape{.hidden = 640, .intermediate = 96, .experts = 16};
  const PairLayer layer(shape);
  PairOnDevice device(layer);
  PairInput in = random_input(shape, 8, 6, 48, rng);
  const auto r = device.run(in, sm90::experts_ctas(), 16);
  PairInput local = in;
  for (int32_t& id : local.ids) id -= 16;
  expect_right(layer, local, r);
  for (size_t s = 0; s < in.ids.size(); ++s) {
    const bool is_local = local.ids[s] >= 0 && local.ids[s] < 16;
    EXPECT_EQ(r.slot_row[s], is_local ? static_cast<int32_t>(s) : -1);
    EXPECT_EQ(r.rows[s * 640].bits == 0xFFFF, !is_local) << "slot " << s;
  }
}

TEST(Mxfp8Pair, ThousandsOfRandomRoutings) {
  std::mt19937 rng(5);
  const PairShape shape{.hidden = 320, .intermediate = 64, .experts = 24};
  const PairLayer layer(shape);
  PairOnDevice device(layer);
  for (int i = 0; i < 1000 && !testing::Test::HasFailure(); ++i) {
    const auto tokens = static_cast<int64_t>(1 + rng() % 8),
               top_k = static_cast<int64_t>(1 + rng() % 8);
    const PairInput in = random_input(shape, tokens, top_k, 24 + (i % 3 == 0 ? 8 : 0), rng);
    const int ctas = 1 + static_cast<int>(rng() % 132);
    expect_right(layer, in, device.run(in, ctas));
  }
}

TEST(Mxfp8Pair, SpreadsNanAndKeepsTheSmallestScale) {
  std::mt19937 rng(6);
  const PairShape shape{.hidden = 320, .intermediate = 64, .experts = 4};
  PairLayer layer(shape);
  for (int64_t i = 0; i < 10; ++i)
    layer.set_scale(0, (64 * 0 + 5) * 10 + i, 0);  // a gate row of 2^-127
  layer.set_scale(1, (64 * 1 + 7) * 10 + 3, 255);  // NaN in an up row of expert 1
  layer.set_scale(2, (320 * 2 + 9) * 2 + 1, 255);  // and in a down row of expert 2
  layer.set_scale(2, (320 * 3 + 9) * 2 + 1, 0);
  layer.set_scale(0, (64 * 3 + 1) * 10 + 1, 200);  // 2^73
  PairOnDevice device(layer);
  for (const int64_t tokens : {1, 8}) {
    PairInput in = random_input(shape, tokens, 4, 4, rng);
    in.codes[17] = 0x7F;                                   // NaN in row 0
    if (tokens > 1) in.scales[size_of(10 * 3 + 2)] = 255;  // in row 3
    if (tokens > 1) in.scales[size_of(10 * 4 + 2)] = 0;    // 2^-127 in row 4
    expect_right(layer, in, device.run(in, sm90::experts_ctas()));
  }
}

TEST(Mxfp8Pair, TheSlowPathGivesTheFastOnesBytes) {
  std::mt19937 rng(7);
  const PairLayer layer(kShapes[0]);
  PairOnDevice fast(layer), slow(layer, true);
  const PairInput in = random_input(layer.shape, 8, 6, layer.shape.experts, rng);
  const auto a = fast.run(in, sm90::experts_ctas()), b = slow.run(in, sm90::experts_ctas());
  EXPECT_TRUE(a.rows == b.rows && a.h == b.h && a.h_scales == b.h_scales && a.y == b.y);
}

TEST(Mxfp8Pair, RefusesWhatItDoesNotTake) {
  const PairLayer layer(PairShape{.hidden = 64, .intermediate = 32, .experts = 1});
  sm90::ExpertsArgs all;
  ExpertGemmArgs& a = all.gemm;
  a.weights.sizes = layouts::stream_sizes(layer.expert(0));
  a.activations = Activations::kMxfp8;
  EXPECT_EQ(sm90::check_experts(all).why, "weights in the order bf16, want e4m3");
  a.weights.order = layouts::StreamOrder::kE4m3;
  a.tokens = 9;
  EXPECT_EQ(sm90::check_experts(all).why, "T 9, want 1 to 8");
  a.tokens = 8;
  a.top_k = 9;
  EXPECT_EQ(sm90::check_experts(all).why, "k 9, want 1 to 8");
  a.top_k = 1;
  a.hidden = 40;
  EXPECT_EQ(sm90::check_experts(all).why, "hidden 40, want a multiple of 32");
  a.hidden = 64;
  a.intermediate = 32;
  a.weights.experts = 513;
  EXPECT_EQ(sm90::check_experts(all).why, "experts 513, want at most 512");
  a.weights.experts = 1;
  EXPECT_NE(sm90::check_experts(all).why.find("workspace bytes 0, want at least"),
            std::string::npos);
}

}  // namespace
}  // namespace octet::cuda
