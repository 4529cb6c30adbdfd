// SPDX-License-Identifier: Apache-2.0
// Needs an SM 9.0 device. A layer on Hopper's kernels as a caller has it: from logits or ids through Layer::enqueue, chunks of 8 rows, ranks,
// images, everything that a call may want; y, h against the reference with the FP8 unit's room, other ways to the same call byte by byte.
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cpu/ops.h"
#include "cpu/test_layer.h"
#include "cuda/device_memory.h"
#include "dispatch/checkpoint_order.h"
#include "dispatch/layer.h"
#include "on_device.h"
#include "reference/layer.h"
#include "routing/topk.h"

namespace octet::sm90 {
namespace {

using cuda::OnDevice;

constexpr int32_t kFirstImage = 1000;
constexpr const char* kName = "experts_mxfp8_mxfp4_sm90";

struct Shape {
  int64_t hidden, intermediate, local, first, others, top_k;  // others: experts of ranks behind
  bool biases, images;
};
// Whole layers and ranks' parts; the last has more tiles than a launch could.
constexpr Shape kShapes[] = {
    {256, 96, 12, 0, 0, 6, false, true},
    {5120, 576, 16, 8, 8, 6, false, false},
    {640, 64, 9, 3, 3, 3, true, true},
    {320, 32, 96, 0, 0, 8, false, false},
};

class TestCase {
 public:
  explicit TestCase(const Shape& s)
      : shape(s),
        made({.activations = Activations::kMxfp8,
              .hidden = s.hidden,
              .intermediate = s.intermediate,
              .experts = s.local,
              .first_expert = s.first,
              .biases = s.biases,
              .swiglu = {.limit = 10.0F},
              .seed = 3}) {
    std::normal_distribution<float> normal(0.0F, 0.5F);
    tensors.spec = made.spec();
    tensors.spec.experts = s.first + s.local + s.others;
    tensors.spec.router.top_k = s.top_k;
    tensors.spec.router.scale = 1.5F;
    tensors.spec.router.image_sentinel_lo = s.images ? kFirstImage : 0;
    tensors.experts = made.experts;
    for (int64_t e = 0; e < tensors.spec.experts; ++e) {
      bias.push_back(normal(rng));
      bias_vl.push_back(normal(rng));
    }
    const auto view = [&](const std::vector<float>& v) {
      return TensorView{
          Dtype::kF32, {tensors.spec.experts}, reinterpret_cast<const std::byte*>(v.data())};
    };
    tensors.gate.bias = view(bias);
    if (s.images) tensors.gate.bias_vl = view(bias_vl);
    InlineExecutor one;
    auto loaded = dispatch::Layer::load(tensors, {.backend = Backend::kCuda}, one);
    if (!loaded.ok()) throw std::runtime_error(loaded.status().why);
    layer = std::move(loaded).value();
  }

  Shape shape;
  std::mt19937 rng{7};
  cpu::TestLayer made;
  std::vector<float> bias, bias_vl;
  checkpoint::LayerTensors tensors;
  dispatch::Layer layer;
};

struct Input {
  int64_t tokens;
  std::vector<Bf16> x, shared;
  std::vector<float> logits;
  std::vector<int32_t> input_ids;
};
Input random_input(TestCase& c, int64_t tokens) {
  std::normal_distribution<float> normal(0.0F, 2.0F);
  Input in{.tokens = tokens,
           .x = c.made.random_x(tokens),
           .shared = c.made.random_x(tokens),
           .logits = {},
           .input_ids = {}};
  for (int64_t i = 0; i < tokens * c.tensors.spec.experts; ++i) in.logits.push_back(normal(c.rng));
  for (int64_t t = 0; t < tokens; ++t)
    in.input_ids.push_back(t % 3 == 2 ? kFirstImage + static_cast<int32_t>(t % 5) : 17);
  return in;
}
Input row_of(const TestCase& c, const Input& in, int64_t t) {
  const auto part = [&](const auto& v, int64_t width) {
    return std::vector(v.begin() + t * width, v.begin() + (t + 1) * width);
  };
  return {1, part(in.x, c.shape.hidden), part(in.shared, c.shape.hidden),
          part(in.logits, c.tensors.spec.experts), part(in.input_ids, 1)};
}

struct Output {
  std::vector<Bf16> y, rows;
  std::vector<int32_t> ids, permuted;
  std::vector<float> weights;
  std::vector<uint8_t> x_quant, x_scale, h_values, h_scales;
};
enum class From { kLogits, kIds };
struct Wanted {
  From from = From::kLogits;
  bool y = true, rows = false, trace = false;
};

// Everything that is written was 0xFF before, the workspace too, behind which a guard lies.
Output run(const TestCase& c, const Input& in, const Wanted& wanted,
           const Output* given = nullptr) {
  const LayerSpec& s = c.layer.spec();
  const int64_t slots = in.tokens * c.shape.top_k;
  const auto poison = [](auto& v, int64_t count) {
    v.resize(static_cast<size_t>(count));
    std::memset(static_cast<void*>(v.data()), 0xFF, v.size() * sizeof(v[0]));
  };
  Output o;
  poison(o.y, in.tokens * s.hidden);
  poison(o.rows, slots * s.hidden);
  poison(o.ids, slots);
  poison(o.permuted, slots);
  poison(o.weights, slots);
  poison(o.x_quant, in.tokens * s.hidden);
  poison(o.x_scale, in.tokens * s.hidden / kMxBlock);
  poison(o.h_values, slots * s.intermediate);
  poison(o.h_scales, slots * s.intermediate / kMxBlock);
  const OnDevice<Bf16> x(in.x), shared(in.shared), y(o.y), rows(o.rows);
  const OnDevice<float> logits(in.logits), weights(given != nullptr ? given->weights : o.weights);
  const OnDevice<int32_t> ids(given != nullptr ? given->ids : o.ids), input_ids(in.input_ids),
      permuted(o.permuted);
  const OnDevice<uint8_t> x_quant(o.x_quant), x_scale(o.x_scale), h_values(o.h_values),
      h_scales(o.h_scales);
  dispatch::LayerCall call{.tokens = in.tokens, .x = x.get()};
  if (wanted.from == From::kLogits) {
    call.logits = logits.get();
    call.topk_ids = ids.get();
    call.topk_weights = weights.get();
    if (c.shape.images) call.input_ids = {input_ids.get(), false};
  } else {
    call.given_ids = {ids.get(), false};
    call.given_weights = weights.get();
  }
  call.shared = shared.get();
  if (wanted.y) call.y = y.get();
  if (wanted.rows) {
    call.rows = rows.get();
    call.permuted = permuted.get();
  }
  if (wanted.trace)
    call.trace = {x_quant.get(), x_scale.get(), h_values.get(), h_scales.get(), nullptr};
  const auto bytes = c.layer.device_workspace_bytes(in.tokens, c.shape.top_k);
  EXPECT_TRUE(bytes.ok()) << bytes.status().why;
  constexpr size_t kGuard = 256;
  const OnDevice<uint8_t> workspace(
      std::vector<uint8_t>(static_cast<size_t>(*bytes) + kGuard, 0xFF));
  const Status status = c.layer.enqueue(call, workspace.get(), *bytes, nullptr);
  EXPECT_TRUE(status.ok()) << status.why;
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << cudaGetErrorString(cudaGetLastError());
  const std::vector<uint8_t> memory = workspace.back();
  for (size_t i = memory.size() - kGuard; i < memory.size(); ++i)
    EXPECT_EQ(memory[i], 0xFF) << "guard";
  return {y.back(),       rows.back(),    ids.back(),      permuted.back(), weights.back(),
          x_quant.back(), x_scale.back(), h_values.back(), h_scales.back()};
}

void expect_routing(const TestCase& c, const Input& in, const Output& o) {
  std::vector<int32_t> ids(o.ids.size());
  std::vector<float> weights(o.ids.size());
  InlineExecutor one;
  cpu::topk({.logits = in.logits.data(),
             .tokens = in.tokens,
             .experts = c.tensors.spec.experts,
             .router = c.tensors.spec.router,
             .bias = c.bias.data(),
             .bias_vl = c.shape.images ? c.bias_vl.data() : nullptr,
             .input_ids = {in.input_ids.data(), false},
             .topk_ids = ids.data(),
             .topk_weights = weights.data()},
            one);
  EXPECT_EQ(o.ids, ids);
  for (size_t i = 0; i < weights.size(); ++i)
    EXPECT_NEAR(o.weights[i], weights[i], 1e-6F * weights[i]) << "slot " << i;
}

// y, and h where it was read back, inside the reference's intervals.
void expect_right(const TestCase& c, const Input& in, const Output& o, bool has_h) {
  reference::MadeHidden made{
      .permuted = o.permuted.data(), .values = o.h_values.data(), .scales = o.h_scales.data()};
  reference::HiddenVerdict h;
  const auto want =
      reference::layer({.spec = c.tensors.spec,
                        .tokens = in.tokens,
                        .top_k = c.shape.top_k,
                        .x = in.x.data(),
                        .topk_ids = o.ids.data(),
                        .topk_weights = o.weights.data(),
                        .shared = in.shared.data(),
                        .expert = [&](int64_t e) { return c.made.experts[static_cast<size_t>(e)]; },
                        .made = has_h ? &made : nullptr,
                        .sums = reference::Sums::kFp8Unit},
                       {}, &h);
  EXPECT_EQ(h.num_outside, 0) << "of " << h.num_elems << "; slot " << h.slot << ", column "
                              << h.column << ": got " << h.got << ", want " << h.want.lo << " ... "
                              << h.want.hi;
  EXPECT_EQ(h.num_elems > 0, has_h);
  const reference::Worst worst =
      reference::compare(want, o.y.data(), in.tokens, c.tensors.spec.hidden);
  EXPECT_EQ(worst.num_outside, 0) << "y[" << worst.token << ", " << worst.column << "]: got "
                                  << worst.got << ", want " << worst.want.lo << " ... "
                                  << worst.want.hi;
}

TEST(Sm90Layer, FromLogitsIsTheReferenceWithinItsRoom) {
  for (const Shape& shape : kShapes) {
    TestCase c(shape);
    ASSERT_EQ(c.layer.selection().kernel->name, kName);
    for (const int64_t tokens : {1, 2, 7, 8, 9, 16, 20}) {
      SCOPED_TRACE(testing::Message() << "H " << shape.hidden << ", T " << tokens);
      const Input in = random_input(c, tokens);
      const Output o = run(c, in, {});
      expect_routing(c, in, o);
      expect_right(c, in, o, false);
    }
  }
}

TEST(Sm90Layer, EveryWayToACallGivesItsBytes) {
  for (const Shape& shape : kShapes) {
    TestCase c(shape);
    for (const int64_t tokens : {3, 8, 20}) {
      SCOPED_TRACE(testing::Message() << "H " << shape.hidden << ", T " << tokens);
      const Input in = random_input(c, tokens);
      const Output plain = run(c, in, {});
      const Output traced = run(c, in, {.rows = true, .trace = true});
      const Output of_ids = run(c, in, {.from = From::kIds}, &plain);
      const Output rows = run(c, in, {.from = From::kIds, .y = false, .rows = true}, &plain);
      EXPECT_EQ(traced.ids, plain.ids);
      EXPECT_EQ(traced.weights, plain.weights);
      EXPECT_EQ(traced.y, plain.y);
      EXPECT_EQ(of_ids.y, plain.y);
      EXPECT_EQ(rows.rows, traced.rows);
      EXPECT_EQ(rows.permuted, traced.permuted);
      expect_right(c, in, traced, true);
      std::vector<uint8_t> x_quant(in.x.size()), x_scale(in.x.size() / kMxBlock);
      InlineExecutor one;
      cpu::mxfp8_quantize(
          {in.x.data(), tokens, shape.hidden, ScaleLayout::kLinear, x_quant.data(), x_scale.data()},
          one);
      EXPECT_EQ(traced.x_quant, x_quant);
      EXPECT_EQ(traced.x_scale, x_scale);
      for (size_t i = 0; i < plain.ids.size(); ++i) {
        const bool is_local =
            plain.ids[i] >= shape.first && plain.ids[i] < shape.first + shape.local;
        EXPECT_EQ(traced.permuted[i], is_local ? static_cast<int32_t>(i) : -1) << "slot " << i;
        EXPECT_EQ(traced.rows[i * static_cast<size_t>(shape.hidden)].bits == 0xFFFF, !is_local)
            << "slot " << i;
      }
      for (int64_t t = 0; t < tokens; ++t) {
        const Output alone = run(c, row_of(c, in, t), {});
        EXPECT_TRUE(std::equal(alone.y.begin(), alone.y.end(), plain.y.begin() + t * shape.hidden))
            << "row " << t;
      }
    }
  }
}

// Through host memory, beside the exact kernel, which is within the reference's interval without the unit's room.
TEST(Sm90Layer, RunFromHostMemoryGivesItsBytesAndExactIsTheOtherKernel) {
  TestCase c(kShapes[0]);
  const Input in = random_input(c, 9);
  const Output plain = run(c, in, {});
  InlineExecutor one;
  const auto y_of = [&](const dispatch::Layer& layer) {
    std::vector<Bf16> y(in.x.size());
    const int64_t bytes = layer.workspace_bytes(9, c.shape.top_k, 1);
    Tensor workspace(Dtype::kU8, {bytes});
    dispatch::LayerCall call{.tokens = 9, .x = in.x.data()};
    call.given_ids = {plain.ids.data(), false};
    call.given_weights = plain.weights.data();
    call.shared = in.shared.data();
    call.y = y.data();
    const Status status = layer.run(call, workspace.data(), bytes, one);
    EXPECT_TRUE(status.ok()) << status.why;
    return y;
  };
  EXPECT_EQ(y_of(c.layer), plain.y);
  checkpoint::LayerTensors exact = c.tensors;
  exact.spec.precision = Precision::kExact;
  const auto layer = dispatch::Layer::load(exact, {.backend = Backend::kCuda}, one);
  ASSERT_TRUE(layer.ok()) << layer.status().why;
  EXPECT_EQ(layer->selection().kernel->name, "experts_mxfp8_mxfp4_sm80");
  const auto named = dispatch::Layer::load(c.tensors, {.kernel = "experts_mxfp8_mxfp4_sm80"}, one);
  ASSERT_TRUE(named.ok()) << named.status().why;
  EXPECT_EQ(y_of(*layer), y_of(*named));
}

// The same layer from a packed file's panels and bound to prepared tensors in host and in device memory.
TEST(Sm90Layer, PackedAndBoundLayersGiveTheBytesOfTheCheckpoints) {
  constexpr int64_t kExperts = 32, kHidden = 128, kPadded = 128, kTokens = 5;
  for (const int64_t intermediate : {int64_t{96}, int64_t{80}}) {
    SCOPED_TRACE(testing::Message() << "I " << intermediate);
    // The prepared tensors are random bytes; the checkpoint is what they are made back into.
    std::mt19937 rng(5);
    const auto random = [&](int64_t rows, int64_t bytes, uint8_t low, uint8_t count) {
      Tensor t(Dtype::kU8, {kExperts, rows, bytes});
      for (size_t i = 0; i < t.num_bytes(); ++i)
        t.as<uint8_t>()[i] = static_cast<uint8_t>(low + rng() % count);
      return t;
    };
    Tensor w13 = random(2 * kPadded, kHidden / 2, 0, 255),
           w13_scale = random(2 * kPadded, kHidden / 32, 120, 5),
           w2 = random(kHidden, kPadded / 2, 0, 255),
           w2_scale = random(kHidden, kPadded / 32, 120, 5), clamp(Dtype::kF32, {kExperts});
    for (int64_t e = 0; e < kExperts; ++e) clamp.as<float>()[e] = 10.0F;
    for (int64_t row = 0; row < kExperts * 2 * kPadded; ++row) {
      if (layouts::w13_logical_row(row % (2 * kPadded)).column >= intermediate)
        std::memset(w13.as<uint8_t>() + row * (kHidden / 2), 0, kHidden / 2);
    }
    for (int64_t row = 0; row < kExperts * kHidden; ++row)
      std::memset(w2.as<uint8_t>() + row * (kPadded / 2) + intermediate / 2, 0,
                  static_cast<size_t>((kPadded - intermediate) / 2));
    dispatch::PreparedBinding binding{
        .tensors = {w13.view(), w13_scale.view(), w2.view(), w2_scale.view(), clamp.view()},
        .intermediate = intermediate,
        .top_k = 6};
    InlineExecutor one;
    const auto bound = dispatch::Layer::bind(binding, {.backend = Backend::kCuda});
    ASSERT_TRUE(bound.ok()) << bound.status().why;
    EXPECT_EQ(bound->selection().kernel->name,
              intermediate % 32 == 0 ? kName : "experts_mxfp8_mxfp4_sm80");
    std::vector<std::unique_ptr<OnDevice<uint8_t>>> there;
    for (TensorView* t : {&binding.tensors.w13, &binding.tensors.w13_scale, &binding.tensors.w2,
                          &binding.tensors.w2_scale, &binding.tensors.clamp}) {
      const auto* const from = reinterpret_cast<const uint8_t*>(t->data);
      there.push_back(
          std::make_unique<OnDevice<uint8_t>>(std::vector<uint8_t>(from, from + t->num_bytes())));
      t->data = reinterpret_cast<const std::byte*>(there.back()->get());
    }
    const auto on_device = dispatch::Layer::bind(binding, {.backend = Backend::kCuda});
    ASSERT_TRUE(on_device.ok()) << on_device.status().why;
    const checkpoint::LayerTensors tensors = dispatch::unprepared(
        {w13.view(), w13_scale.view(), w2.view(), w2_scale.view(), clamp.view()}, bound->spec(),
        one);
    const auto loaded = dispatch::Layer::load(tensors, {.backend = Backend::kCuda}, one);
    ASSERT_TRUE(loaded.ok()) << loaded.status().why;
    const layouts::PanelSizes sizes = layouts::panel_sizes(tensors.experts[0]);
    Tensor panels(Dtype::kU8, {kExperts * sizes.expert_bytes()});
    checkpoint::LayerTensors packed = tensors;
    packed.packed = checkpoint::PackedPanels{panels.as<uint8_t>(), sizes.expert_bytes(), sizes};
    for (size_t e = 0; e < kExperts; ++e) {
      layouts::pack_expert(tensors.experts[e],
                           panels.as<uint8_t>() + static_cast<int64_t>(e) * sizes.expert_bytes());
      packed.experts[e].gate = packed.experts[e].up = packed.experts[e].down = {};
    }
    const auto of_panels = dispatch::Layer::load(packed, {.backend = Backend::kCuda}, one);
    ASSERT_TRUE(of_panels.ok()) << of_panels.status().why;

    std::normal_distribution<float> normal;
    std::vector<Bf16> x;
    for (int64_t i = 0; i < kTokens * kHidden; ++i)
      x.push_back(formats::bf16_from_f32(normal(rng)));
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < kTokens * 6; ++i) ids.push_back(static_cast<int32_t>(i * 7 % kExperts));
    const std::vector<float> weights(ids.size(), 0.25F);
    const auto y_of = [&](const dispatch::Layer& layer) {
      std::vector<Bf16> y(x.size(), Bf16{0xFFFF});
      const int64_t bytes = layer.workspace_bytes(kTokens, 6, 1);
      Tensor workspace(Dtype::kU8, {bytes});
      dispatch::LayerCall call{.tokens = kTokens, .x = x.data()};
      call.given_ids = {ids.data(), false};
      call.given_weights = weights.data();
      call.y = y.data();
      const Status status = layer.run(call, workspace.data(), bytes, one);
      EXPECT_TRUE(status.ok()) << status.why;
      return y;
    };
    const std::vector<Bf16> want = y_of(*loaded);
    const auto spans = reference::layer(
        {.spec = bound->spec(),
         .tokens = kTokens,
         .top_k = 6,
         .x = x.data(),
         .topk_ids = ids.data(),
         .topk_weights = weights.data(),
         .expert = [&](int64_t e) { return tensors.experts[static_cast<size_t>(e)]; },
         .sums = dispatch::sums_of(*bound->selection().kernel)});
    EXPECT_EQ(reference::compare(spans, want.data(), kTokens, kHidden).num_outside, 0);
    EXPECT_EQ(y_of(*bound), want);
    EXPECT_EQ(y_of(*on_device), want);
    EXPECT_EQ(y_of(*of_panels), want);
  }
}

// Why Hopper's kernels were not taken, as the layer says it.
std::string why_not(const dispatch::Selection& selection) {
  for (const dispatch::Refusal& r : selection.refused)
    if (r.kernel->name == kName) return r.why;
  return "";
}

TEST(Sm90Layer, LayersThatItDoesNotTakeGoToTheNextKernel) {
  InlineExecutor one;
  const auto chosen = [&](const checkpoint::LayerTensors& t) {
    auto layer = dispatch::Layer::load(t, {.backend = Backend::kCuda}, one);
    EXPECT_TRUE(layer.ok()) << layer.status().why;
    EXPECT_EQ(layer->selection().kernel->name, "experts_mxfp8_mxfp4_sm80");
    return why_not(layer->selection());
  };
  const auto made = [](int64_t intermediate, int64_t start) {
    return cpu::TestLayer({.activations = Activations::kMxfp8,
                           .hidden = 64,
                           .intermediate = intermediate,
                           .experts = 2,
                           .start = start});
  };
  const auto tensors = [](const cpu::TestLayer& layer) {
    return checkpoint::LayerTensors{.spec = layer.spec(), .experts = layer.experts};
  };
  EXPECT_EQ(chosen(tensors(made(40, 0))), "intermediate 40, want a multiple of 32");
  EXPECT_EQ(chosen(tensors(made(32, 16))), "h begins at element 16, want 0 of a scale block");
  const cpu::TestLayer plain = made(32, 0);
  checkpoint::LayerTensors t = tensors(plain);
  t.spec.router.top_k = 9;
  EXPECT_EQ(chosen(t), "k 9, want 1 to 8");
  t = tensors(plain);
  t.spec.precision = Precision::kExact;
  EXPECT_EQ(chosen(t), "keeps 13 fraction bits in its sums of 32 products, want --precision fast");
  // Only the weights themselves tell.
  for (const uint8_t code : {uint8_t{253}, uint8_t{254}}) {
    t = tensors(plain);
    std::vector<uint8_t> scales(64, 120);
    scales[5] = code;
    t.experts[1].down.scales = scales.data();
    const std::string why =
        "the weights have scale codes 253 or 254, infinities; want at most 252, or 255";
    EXPECT_EQ(chosen(t), why);
    const auto named = dispatch::Layer::load(t, {.kernel = kName}, one);
    EXPECT_EQ(named.status().why,
              std::string("kernel ") + kName + " does not take this layer: " + why);
  }
}

TEST(Sm90Layer, ACallThatItDoesNotTakeIsRefusedBeforeAnythingIsWritten) {
  TestCase c(kShapes[0]);
  InlineExecutor one;
  const std::vector<int32_t> ids(9);
  const std::vector<float> weights(9);
  const std::vector<Bf16> x = c.made.random_x(1);
  std::vector<Bf16> y(x.size(), Bf16{0xFFFF});
  dispatch::LayerCall call{.tokens = 1, .x = x.data()};
  call.given_ids = {ids.data(), false};
  call.given_weights = weights.data();
  call.given_top_k = 9;
  call.y = y.data();
  const int64_t bytes = c.layer.workspace_bytes(1, 9, 1);
  Tensor workspace(Dtype::kU8, {bytes});
  EXPECT_EQ(c.layer.run(call, workspace.data(), bytes, one).why,
            "top_k 9, want at most 8, or a layer loaded with kernel experts_mxfp8_mxfp4_sm80");
  EXPECT_EQ(y, std::vector<Bf16>(x.size(), Bf16{0xFFFF}));

  // The router runs on the host; the device has no room for the call: neither ids nor logits are written.
  Input in = random_input(c, 4096);
  std::vector<int32_t> ids_out(4096 * 6, -7);
  std::vector<float> weights_out(4096 * 6, -7.0F), logits_out(in.logits.size(), -7.0F);
  y.assign(in.x.size(), Bf16{0xFFFF});
  call = {.tokens = 4096, .x = in.x.data()};
  call.logits = in.logits.data();
  call.input_ids = {in.input_ids.data(), false};
  call.y = y.data();
  call.topk_ids = ids_out.data();
  call.topk_weights = weights_out.data();
  call.logits_out = logits_out.data();
  const int64_t wanted = c.layer.workspace_bytes(4096, 6, 1);
  Tensor large(Dtype::kU8, {wanted});
  {
    std::vector<cuda::DeviceMemory> all;  // but for less than a MiB
    for (int64_t piece = int64_t{1} << 38; piece >= int64_t{1} << 20; piece /= 2) {
      for (;;) {
        auto memory = cuda::DeviceMemory::allocate(piece);
        if (!memory.ok()) break;
        all.push_back(std::move(memory).value());
      }
    }
    const Status status = c.layer.run(call, large.data(), wanted, one);
    EXPECT_EQ(status.code, Code::kOutOfMemory) << status.why;
  }
  EXPECT_EQ(ids_out, std::vector<int32_t>(ids_out.size(), -7));
  EXPECT_EQ(weights_out, std::vector<float>(weights_out.size(), -7.0F));
  EXPECT_EQ(logits_out, std::vector<float>(logits_out.size(), -7.0F));
  EXPECT_EQ(y, std::vector<Bf16>(y.size(), Bf16{0xFFFF}));
  const Status status = c.layer.run(call, large.data(), wanted, one);
  EXPECT_TRUE(status.ok()) << status.why;
  EXPECT_NE(ids_out[0], -7);
  EXPECT_EQ(logits_out, in.logits);
}

}  // namespace
}  // namespace octet::sm90
