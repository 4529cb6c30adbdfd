// SPDX-License-Identifier: Apache-2.0
// Needs a device. Layers in device memory beyond what conformance runs of every kernel: device pointers, graphs, grids, both orders of
// codes, poisoned memory. Values are compared with the reference there (tests/conformance); here bytes with bytes.
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <vector>

#include "cpu/test_layer.h"
#include "cuda/device_layer.h"
#include "cuda/device_weights.h"
#include "cuda/expert_gemm_bf16.h"
#include "cuda/front.h"
#include "on_device.h"
#include "routing/record.h"

namespace octet::cuda {
namespace {

constexpr int64_t kTopK = 3;

struct Shape {
  WeightFormat weights;
  Activations activations;
  int64_t hidden, intermediate, start;
};
// Slices of K that fill a unit's warps, several strips a unit, more slices than warps (rounds), and a cut inside a block.
constexpr Shape kShapes[] = {
    {WeightFormat::kMxfp4, Activations::kBf16, 128, 96, 0},
    {WeightFormat::kMxfp4, Activations::kMxfp8, 5120, 72, 8},
    {WeightFormat::kNvfp4, Activations::kBf16, 5632, 128, 0},
    {WeightFormat::kNvfp4, Activations::kMxfp8, 96, 5400, 24},
};

cpu::TestLayer make_layer(const Shape& s) {
  return cpu::TestLayer({.weights = s.weights,
                         .activations = s.activations,
                         .hidden = s.hidden,
                         .intermediate = s.intermediate,
                         .experts = 5,
                         .start = s.start,
                         .first_expert = 2,
                         .biases = true,
                         .swiglu = {.limit = 7.0F, .alpha = 1.702F, .beta = 1.0F},
                         .seed = 4});
}
checkpoint::LayerTensors tensors_of(const cpu::TestLayer& layer) {
  return {.spec = layer.spec(), .experts = layer.experts};
}

void expect_ok(const Status& status) { EXPECT_TRUE(status.ok()) << status.why; }

// Rows of the GEMM pair, by slot, beside a guard; what is not written is 0xFFFF.
std::vector<Bf16> run_pair(const cpu::TestLayer& layer, layouts::StreamOrder order, bool wide,
                           int32_t most_ctas, const std::vector<Bf16>& x,
                           const std::vector<int32_t>& ids) {
  InlineExecutor one;
  auto weights = load_weights(tensors_of(layer), order, one, {});
  EXPECT_TRUE(weights.ok()) << weights.status().why;
  const LayerSpec& s = layer.spec();
  const int64_t tokens = std::ssize(ids) / kTopK;
  const OnDevice<Bf16> d_x(x);
  const OnDevice<int32_t> d_ids(ids);
  const OnDevice<uint8_t> x_quant(std::vector<uint8_t>(x.size())),
      x_scale(std::vector<uint8_t>(x.size() / kMxBlock));
  const int64_t ctas = routing::max_ctas(tokens, kTopK, s.local_experts);
  const OnDevice<int32_t> permuted(std::vector<int32_t>(ids.size(), -7)),
      slot_row(std::vector<int32_t>(ids.size(), -7)),
      record(std::vector<int32_t>(static_cast<size_t>(routing::record_words(ctas)), -7));
  const size_t guard = 64;
  const OnDevice<Bf16> rows(
      std::vector<Bf16>(ids.size() * static_cast<size_t>(s.hidden) + guard, Bf16{0xFFFF}));
  const int64_t bytes = expert_gemm_bf16_workspace_bytes(
      weights->view.sizes, s.local_experts, tokens, kTopK, s.intermediate, s.activations);
  const OnDevice<uint8_t> workspace(std::vector<uint8_t>(static_cast<size_t>(bytes), 0xFF));
  ExpertGemmArgs a{.weights = weights->view,
                   .tokens = tokens,
                   .top_k = kTopK,
                   .hidden = s.hidden,
                   .intermediate = s.intermediate,
                   .activations = s.activations,
                   .alpha = s.swiglu.alpha,
                   .beta = s.swiglu.beta,
                   .x = d_x.get(),
                   .x_quant = x_quant.get(),
                   .x_scale = x_scale.get(),
                   .record = record.get(),
                   .permuted = permuted.get(),
                   .most_ctas = most_ctas,
                   .workspace = workspace.get(),
                   .workspace_bytes = bytes,
                   .rows = rows.get(),
                   .slot_row = slot_row.get()};
  if (wide) a.weights.is_wide = true;
  expect_ok(launch_mxfp8_quantize(
      {d_x.get(), tokens, s.hidden, ScaleLayout::kLinear, x_quant.get(), x_scale.get()}, nullptr));
  expect_ok(launch_route({.topk_ids = {d_ids.get(), false},
                          .tokens = tokens,
                          .top_k = kTopK,
                          .experts = s.local_experts,
                          .permuted = permuted.get(),
                          .record = record.get(),
                          .first_expert = s.first_expert},
                         nullptr));
  expect_ok(launch_expert_gemm_bf16(a, {}, nullptr));
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  std::vector<Bf16> got = rows.back();
  const std::vector<int32_t> named = slot_row.back();
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool is_local = ids[i] >= s.first_expert && ids[i] < s.first_expert + s.local_experts;
    EXPECT_EQ(named[i], is_local ? static_cast<int32_t>(i) : -1);
  }
  for (size_t i = got.size() - guard; i < got.size(); ++i) EXPECT_EQ(got[i].bits, 0xFFFF);
  return got;
}

TEST(ExpertLayer, GridOrderOfCodesAndSlowScalesChangeNoByte) {
  for (const Shape& shape : kShapes) {
    cpu::TestLayer layer = make_layer(shape);
    const std::vector<Bf16> x = layer.random_x(11);
    const std::vector<int32_t> ids = layer.random_ids(11, kTopK);
    const auto want = run_pair(layer, layouts::StreamOrder::kBf16, false, 0, x, ids);
    for (const int32_t ctas : {1, 2, 7, 66, 131}) {
      EXPECT_EQ(run_pair(layer, layouts::StreamOrder::kBf16, false, ctas, x, ids), want)
          << "H " << shape.hidden << " I " << shape.intermediate << ", " << ctas << " CTAs";
    }
    EXPECT_EQ(run_pair(layer, layouts::StreamOrder::kE4m3, true, 3, x, ids),
              run_pair(layer, layouts::StreamOrder::kBf16, true, 0, x, ids));
  }
}

// A call on device pointers, captured, replayed on new data, beside the same through host memory.
TEST(ExpertLayer, AGraphReplayedOnNewDataHasTheBytesOfRun) {
  for (const Shape& shape : kShapes) {
    cpu::TestLayer made = make_layer(shape);
    InlineExecutor one;
    auto layer = DeviceLayer::load(tensors_of(made), *sm80_experts(), one, {});
    ASSERT_TRUE(layer.ok()) << layer.status().why;
    constexpr int64_t kTokens = 8;
    const int64_t elems = kTokens * shape.hidden;
    const OnDevice<Bf16> x(std::vector<Bf16>(static_cast<size_t>(elems))),
        y(std::vector<Bf16>(static_cast<size_t>(elems)));
    const OnDevice<int32_t> ids(std::vector<int32_t>(kTokens * kTopK));
    const std::vector<float> weights(kTokens * kTopK, 0.25F);
    const OnDevice<float> d_weights(weights);
    const int64_t bytes = (*layer)->workspace_bytes(kTokens, kTopK);
    const OnDevice<uint8_t> workspace(std::vector<uint8_t>(static_cast<size_t>(bytes), 0xFF));
    DeviceCall call{.tokens = kTokens, .top_k = kTopK};
    call.x = x.get();
    call.ids = {ids.get(), false};
    call.weights = d_weights.get();
    call.y = y.get();
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    const Status status = (*layer)->enqueue(call, workspace.get(), bytes, stream);
    ASSERT_TRUE(status.ok()) << status.why;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    for (int replay = 0; replay < 3; ++replay) {
      const std::vector<Bf16> new_x = made.random_x(kTokens);
      const std::vector<int32_t> new_ids = made.random_ids(kTokens, kTopK);
      cudaMemcpy(x.get(), new_x.data(), new_x.size() * 2, cudaMemcpyHostToDevice);
      cudaMemcpy(ids.get(), new_ids.data(), new_ids.size() * 4, cudaMemcpyHostToDevice);
      ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
      ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      std::vector<Bf16> want(static_cast<size_t>(elems));
      DeviceCall on_host{.tokens = kTokens, .top_k = kTopK};
      on_host.x = new_x.data();
      on_host.ids = {new_ids.data(), false};
      on_host.weights = weights.data();
      on_host.y = want.data();
      const Status ran = (*layer)->run(on_host);
      ASSERT_TRUE(ran.ok()) << ran.why;
      EXPECT_EQ(y.back(), want) << "replay " << replay;
    }
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
  }
}

TEST(ExpertLayer, RefusesWithASentence) {
  cpu::TestLayer made = make_layer(kShapes[0]);
  InlineExecutor one;
  auto layer = DeviceLayer::load(tensors_of(made), *sm80_experts(), one, {});
  ASSERT_TRUE(layer.ok()) << layer.status().why;
  const OnDevice<Bf16> x(std::vector<Bf16>(size_t{128}));
  DeviceCall call{.tokens = 1, .top_k = kTopK};
  EXPECT_EQ((*layer)->enqueue(call, nullptr, 0, nullptr).why, "x: missing");
  call.x = x.get();
  EXPECT_EQ((*layer)->enqueue(call, nullptr, 0, nullptr).why, "y: missing, want y or rows");
  call.rows = x.get();
  EXPECT_NE((*layer)->enqueue(call, nullptr, 0, nullptr).why.find("topk_ids: missing"),
            std::string::npos);
  const OnDevice<int32_t> ids(std::vector<int32_t>(size_t{kTopK}));
  call.ids = {ids.get(), false};
  EXPECT_NE((*layer)->enqueue(call, nullptr, 0, nullptr).why.find("workspace of 0 bytes"),
            std::string::npos);
  const auto memory = DeviceMemory::allocate(int64_t{1} << 50);
  EXPECT_EQ(memory.status().code, Code::kOutOfMemory);
  EXPECT_NE(memory.status().why.find("want 1125899906842624"), std::string::npos);
  EXPECT_NE(device_refusal(99, 0).find("want at least 99.0"), std::string::npos);
}

}  // namespace
}  // namespace octet::cuda
