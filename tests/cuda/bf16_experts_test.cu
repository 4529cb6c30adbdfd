// SPDX-License-Identifier: Apache-2.0
// Needs an SM 9.0 device. The routed experts with BF16 activations in one launch: h and y against float64 with the room of semantics.md
// section 12; from logits, from ids, on any grid, a row alone and among others, in memory of any content: the same bytes.
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "cpu/test_layer.h"
#include "cuda/front.h"
#include "on_device.h"
#include "reference/layer.h"
#include "routing/record.h"
#include "sm90/experts_mxfp8.h"
#include "sm90/read_back.h"

namespace octet::sm90 {
namespace {

using cuda::OnDevice;

size_t size_of(int64_t n) { return static_cast<size_t>(n); }

struct Shape {
  WeightFormat weights;
  int64_t hidden, intermediate, experts, first, top_k;
  bool biases = false;
  Swiglu swiglu = {.limit = 10.0F};
  bool odd_scales = false;
};

struct Input {
  int64_t tokens;
  std::vector<Bf16> x;
  std::vector<int32_t> ids;    // of the whole layer
  std::vector<float> weights;  // [T, k]
};
// What a call wrote; every byte was 0xFF.
struct Output {
  std::vector<Bf16> y, h;
  std::vector<int32_t> slot_row;
  bool operator==(const Output&) const = default;
};

class Layer {
 public:
  explicit Layer(const Shape& of)
      : shape(of),
        made_({.weights = of.weights,
               .hidden = of.hidden,
               .intermediate = of.intermediate,
               .experts = of.experts,
               .first_expert = of.first,
               .biases = of.biases,
               .swiglu = of.swiglu,
               .seed = 5}),
        codes_(packed()),
        gate_alpha_(alphas(&layouts::ExpertWeights::gate_alpha)),
        up_alpha_(alphas(&layouts::ExpertWeights::up_alpha)),
        down_alpha_(alphas(&layouts::ExpertWeights::down_alpha)),
        limit_(alphas(&layouts::ExpertWeights::limit)),
        gate_bias_(biases(&layouts::ExpertWeights::gate_bias, of.intermediate)),
        up_bias_(biases(&layouts::ExpertWeights::up_bias, of.intermediate)),
        down_bias_(biases(&layouts::ExpertWeights::down_bias, of.hidden)) {
    EXPECT_TRUE(prepare_experts(Activations::kBf16, of.weights).ok());
  }

  Input random_input(int64_t tokens) {
    Input in{tokens, made_.random_x(tokens), made_.random_ids(tokens, shape.top_k), {}};
    std::uniform_real_distribution<float> uniform(0.05F, 1.0F);
    for (size_t i = 0; i < in.ids.size(); ++i) in.weights.push_back(uniform(rng));
    return in;
  }

  cuda::ExpertGemmArgs args(int64_t tokens) const {
    cuda::ExpertGemmArgs a;
    a.weights = {.data = codes_.get(),
                 .sizes = layouts::stream_sizes(made_.experts[0]),
                 .order = layouts::StreamOrder::kBf16,
                 .is_wide = is_wide_,
                 .experts = shape.experts,
                 .gate_alpha = gate_alpha_.get(),
                 .up_alpha = up_alpha_.get(),
                 .down_alpha = down_alpha_.get(),
                 .limit = limit_.get()};
    if (shape.biases) {
      a.weights.gate_bias = gate_bias_.get();
      a.weights.up_bias = up_bias_.get();
      a.weights.down_bias = down_bias_.get();
    }
    a.tokens = tokens;
    a.top_k = shape.top_k;
    a.hidden = shape.hidden;
    a.intermediate = shape.intermediate;
    a.activations = Activations::kBf16;
    a.alpha = shape.swiglu.alpha;
    a.beta = shape.swiglu.beta;
    return a;
  }
  int64_t most_tiles(int64_t tokens) const {
    return routing::max_ctas(tokens, shape.top_k, shape.experts);
  }

  // From ids, or from logits where they are given; then `in` gets the ids and weights that were chosen.
  Output run(Input& in, int ctas, const std::vector<float>* logits = nullptr,
             OnDevice<uint8_t>* workspace_of = nullptr) const {
    const int64_t slots = in.tokens * shape.top_k;
    const auto poison = [](auto of, int64_t count) {
      std::vector<decltype(of)> v(size_of(count));
      std::memset(static_cast<void*>(v.data()), 0xFF, v.size() * sizeof(of));
      return v;
    };
    const OnDevice<Bf16> x(in.x), y(poison(Bf16{}, in.tokens * shape.hidden)),
        h(poison(Bf16{}, slots * shape.intermediate));
    const OnDevice<int32_t> ids(in.ids), permuted(poison(int32_t{}, slots)),
        slot_row(poison(int32_t{}, slots)),
        record(poison(int32_t{}, routing::record_words(most_tiles(in.tokens))));
    const OnDevice<float> weights(in.weights),
        scores(logits != nullptr ? *logits : std::vector<float>(1)),
        bias(std::vector<float>(size_of(made_.spec().experts)));
    ExpertsArgs all{.gemm = args(in.tokens)};
    cuda::ExpertGemmArgs& g = all.gemm;
    g.x = x.get();
    g.record = record.get();
    g.permuted = permuted.get();
    g.workspace_bytes = experts_workspace(g).bytes;
    const OnDevice<uint8_t> own(poison(uint8_t{}, g.workspace_bytes + 256));
    g.workspace = workspace_of != nullptr ? workspace_of->get() : own.get();
    g.slot_row = slot_row.get();
    all.topk_weights = weights.get();
    all.y = y.get();
    if (logits != nullptr) {
      all.front = {.x = x.get(),
                   .topk = {},
                   .first_expert = shape.first,
                   .permuted = permuted.get(),
                   .record = record.get()};
      TopkArgs& t = all.front.topk;
      t.logits = scores.get();
      t.tokens = in.tokens;
      t.experts = made_.spec().experts;
      t.router.top_k = shape.top_k;
      t.bias = bias.get();
      t.topk_ids = ids.get();
      t.topk_weights = weights.get();
    } else {
      expect_ok(cuda::launch_route({.topk_ids = {ids.get(), false},
                                    .tokens = in.tokens,
                                    .top_k = shape.top_k,
                                    .experts = shape.experts,
                                    .permuted = permuted.get(),
                                    .record = record.get(),
                                    .first_expert = shape.first},
                                   nullptr));
    }
    expect_ok(check_experts(all));
    expect_ok(launch_experts(all, ctas, nullptr));
    expect_ok(launch_read_back({.experts = &all, .h = h.get()}, nullptr));
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << cudaGetErrorString(cudaGetLastError());
    if (logits != nullptr) {
      in.ids = ids.back();
      in.weights = weights.back();
    }
    if (workspace_of == nullptr) {
      const auto memory = own.back();
      for (size_t i = size_of(g.workspace_bytes); i < memory.size(); ++i)
        EXPECT_EQ(memory[i], 0xFF) << "guard";
    }
    return {y.back(), h.back(), slot_row.back()};
  }

  void expect_right(const Input& in, const Output& o) const {
    reference::MadeHidden hidden{.permuted = o.slot_row.data(), .rounded = o.h.data()};
    reference::HiddenVerdict h;
    const auto want =
        reference::layer({.spec = made_.spec(),
                          .tokens = in.tokens,
                          .top_k = shape.top_k,
                          .x = in.x.data(),
                          .topk_ids = in.ids.data(),
                          .topk_weights = in.weights.data(),
                          .shared = nullptr,
                          .expert = [&](int64_t e) { return made_.experts[size_of(e)]; },
                          .made = &hidden},
                         {}, &h);
    EXPECT_EQ(h.num_outside, 0) << "of " << h.num_elems << "; slot " << h.slot << ", column "
                                << h.column << ": got " << h.got << ", want " << h.want.lo
                                << " ... " << h.want.hi;
    const reference::Worst worst = reference::compare(want, o.y.data(), in.tokens, shape.hidden);
    EXPECT_EQ(worst.num_outside, 0)
        << "y[" << worst.token << ", " << worst.column << "]: got " << worst.got << ", want "
        << worst.want.lo << " ... " << worst.want.hi;
  }
  static void expect_ok(const Status& status) { ASSERT_TRUE(status.ok()) << status.why; }

  Shape shape;
  std::mt19937 rng{11};

 private:
  std::vector<uint8_t> packed() {
    if (shape.odd_scales) plant_odd_scales();
    const int64_t bytes = layouts::stream_sizes(made_.experts[0]).expert_bytes();
    std::vector<uint8_t> all(size_of(shape.experts * bytes));
    for (int64_t e = 0; e < shape.experts; ++e)
      is_wide_ |=
          layouts::pack_stream_expert(made_.experts[size_of(e)], layouts::StreamOrder::kBf16,
                                      all.data() + e * bytes) != layouts::StreamScale::kFast;
    EXPECT_EQ(is_wide_, shape.odd_scales);
    return all;
  }
  // MXFP4: the least, large ones, NaN, an infinity. NVFP4: negative ones, NaN.
  void plant_odd_scales() {
    const auto plant = [&](const layouts::WeightView& v, int64_t row, int64_t at, uint8_t code) {
      const_cast<uint8_t*>(v.scales)[row * v.scale_stride + at] = code;
    };
    const bool is_mx = shape.weights == WeightFormat::kMxfp4;
    const layouts::ExpertWeights& e = made_.experts[0];
    plant(e.gate, 1, 0, is_mx ? 0 : 0x80 | 0x28);
    plant(e.up, 2, 0, is_mx ? 150 : 0x80);
    plant(e.down, 3, 0, is_mx ? 0xFF : 0x7F);
    plant(e.down, 5, 0, is_mx ? 254 : 0xFF);
  }
  std::vector<float> alphas(float layouts::ExpertWeights::*field) const {
    std::vector<float> v;
    for (const layouts::ExpertWeights& e : made_.experts) v.push_back(e.*field);
    return v;
  }
  std::vector<Bf16> biases(layouts::BiasView layouts::ExpertWeights::*field, int64_t n) const {
    std::vector<Bf16> v;
    for (const layouts::ExpertWeights& e : made_.experts) {
      const layouts::BiasView& b = e.*field;
      for (int64_t i = 0; i < n; ++i)
        v.push_back(b.data == nullptr ? Bf16{0} : b.data[i * b.stride]);
    }
    return v;
  }

  cpu::TestLayer made_;
  bool is_wide_ = false;
  OnDevice<uint8_t> codes_;
  OnDevice<float> gate_alpha_, up_alpha_, down_alpha_, limit_;
  OnDevice<Bf16> gate_bias_, up_bias_, down_bias_;
};

constexpr auto kMx = WeightFormat::kMxfp4, kNv = WeightFormat::kNvfp4;
constexpr Swiglu kGptOss{.limit = 7.0F, .alpha = 1.702F, .beta = 1.0F};

// One leaf and several, whole records and halves, unrolled stages and the loop.
const Shape kSmall[] = {
    {kMx, 640, 64, 6, 0, 3},
    {kNv, 1280, 96, 4, 2, 4, true, kGptOss},
    {kMx, 1056, 32, 5, 3, 2, true, {}},
    {kNv, 512, 512, 3, 0, 2},
};
// Those of models, and what has no room for a whole ring.
const Shape kLarge[] = {
    {kMx, 5120, 576, 12, 0, 6},
    {kNv, 5120, 576, 12, 4, 6},
    {kMx, 2880, 2880, 2, 0, 2, true, kGptOss},
    {kNv, 2048, 512, 8, 0, 6},
    {kMx, 7168, 256, 3, 0, 3},
    {kNv, 32, 96, 40, 0, 6},
    {kNv, 1312, 1504, 4, 0, 4},
};

void expect_reference(const Shape& shape, std::initializer_list<int64_t> all_tokens) {
  Layer layer(shape);
  for (const int64_t tokens : all_tokens) {
    SCOPED_TRACE(testing::Message()
                 << "H " << shape.hidden << ", I " << shape.intermediate << ", T " << tokens);
    Input in = layer.random_input(tokens);
    layer.expect_right(in, layer.run(in, experts_ctas()));
  }
}
TEST(Bf16Experts, AreTheReferenceWithinItsRoom) {
  for (const Shape& shape : kSmall) expect_reference(shape, {1, 3, 8});
}
TEST(Bf16Experts, AreTheReferenceAtModelsShapes) {
  for (const Shape& shape : kLarge) expect_reference(shape, {1, 5, 8});
}

TEST(Bf16Experts, OddValuesAreTheReferences) {
  for (const WeightFormat format : {kMx, kNv}) {
    Layer layer({format, 512, 64, 2, 0, 2, false, {}, true});
    Input in = layer.random_input(4);
    // 2^127, the least subnormal, both NaN, infinity.
    for (const uint16_t bits : {0x7F00, 0x0001, 0xFFFF, 0x7F80}) {
      const size_t row = bits == 0x7F00 ? 0 : bits == 0x0001 ? 1 : bits == 0xFFFF ? 2 : 3;
      in.x[row * 512 + 6] = in.x[row * 512 + 7] = Bf16{bits};
    }
    layer.expect_right(in, layer.run(in, experts_ctas()));
  }
}

void expect_same_bytes(const Shape& shape, int64_t tokens, std::initializer_list<int> grids) {
  SCOPED_TRACE(testing::Message() << "H " << shape.hidden << ", T " << tokens);
  Layer layer(shape);
  std::normal_distribution<float> normal(0.0F, 2.0F);
  Input in = layer.random_input(tokens);
  std::vector<float> logits;
  for (int64_t i = 0; i < tokens * (shape.first + shape.experts + 3); ++i)
    logits.push_back(normal(layer.rng));
  const Output plain = layer.run(in, experts_ctas(), &logits);
  EXPECT_TRUE(layer.run(in, experts_ctas()) == plain) << "from ids";
  OnDevice<uint8_t> workspace(
      std::vector<uint8_t>(size_of(experts_workspace(layer.args(tokens)).bytes), 0xA5));
  for (const int ctas : grids) {  // garbage, then either half
    EXPECT_TRUE(layer.run(in, ctas, &logits, &workspace) == plain) << ctas << " CTAs";
    EXPECT_TRUE(layer.run(in, ctas, nullptr, &workspace) == plain) << ctas << " CTAs, from ids";
  }
  const int64_t k = shape.top_k;
  const auto part = [](const auto& v, int64_t first, int64_t count) {
    return std::vector(v.begin() + first, v.begin() + first + count);
  };
  for (int64_t t = 0; t < tokens; ++t) {
    Input row{1, part(in.x, t * shape.hidden, shape.hidden), part(in.ids, t * k, k),
              part(in.weights, t * k, k)};
    const Output alone = layer.run(row, experts_ctas());
    EXPECT_EQ(alone.y, part(plain.y, t * shape.hidden, shape.hidden)) << "row " << t;
    EXPECT_EQ(alone.h, part(plain.h, t * k * shape.intermediate, k * shape.intermediate))
        << "h of row " << t;
  }
}
TEST(Bf16Experts, GiveTheSameBytesFromLogitsAndIdsAndAlone) {
  expect_same_bytes({kMx, 640, 96, 12, 4, 4}, 5, {3, 1});
  expect_same_bytes({kNv, 1280, 64, 9, 0, 6}, 8, {2, 7});
}
TEST(Bf16Experts, GiveTheSameBytesOnAnyGrid) {
  for (const Shape& shape : kLarge) expect_same_bytes(shape, 8, {132, 1, 7, 66, 100, 131, 500});
}

}  // namespace
}  // namespace octet::sm90
