// SPDX-License-Identifier: Apache-2.0
// Needs an SM 9.0 device. The experts with the front in their launch against the launches that it stands for, top-k, quantisation, record and
// make_ready: every byte.
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "cuda/front.h"
#include "formats/bf16.h"
#include "pair_layer.h"
#include "sm90/activation_record.h"
#include "sm90/experts_mxfp8.h"
#include "sm90/launch_word.cuh"

namespace octet::sm90 {
namespace {

using cuda::OnDevice, cuda::size_of;

struct Shape {
  int64_t tokens, experts, local, first, top_k, hidden, intermediate;
};

// What one of the two ways wrote; every byte was 0xA5.
struct Outputs {
  OnDevice<int32_t> ids, permuted, record, slot_row;
  OnDevice<float> weights;
  OnDevice<uint8_t> workspace;
  OnDevice<Bf16> y;
  Outputs(const Shape& s, int64_t bytes)
      : ids(poison<int32_t>(s.tokens * s.top_k)),
        permuted(poison<int32_t>(s.tokens * s.top_k)),
        record(
            poison<int32_t>(routing::record_words(routing::max_ctas(s.tokens, s.top_k, s.local)))),
        slot_row(poison<int32_t>(s.tokens * s.top_k)),
        weights(poison<float>(s.tokens * s.top_k)),
        workspace(poison<uint8_t>(bytes)),
        y(poison<Bf16>(s.tokens * s.hidden)) {}
  template <class T>
  static std::vector<T> poison(int64_t count) {
    std::vector<T> v(size_of(count) + 16);
    std::memset(static_cast<void*>(v.data()), 0xA5, v.size() * sizeof(T));
    return v;
  }
  // x, h and rows of the last launch.
  std::vector<uint8_t> half(const ExpertsWorkspace& at) const {
    const auto all = workspace.back();
    LaunchWord word{};
    std::memcpy(&word, all.data() + ExpertsWorkspace::kWordAt, sizeof word);
    EXPECT_EQ(word.bits & ~LaunchWord::kHalf, LaunchWord::at_rest(at.half_bytes, 0));
    const auto* const from =
        all.data() + ExpertsWorkspace::kHalvesAt + word.last_half() * at.half_bytes;
    const auto* const other =
        all.data() + ExpertsWorkspace::kHalvesAt + word.half() * at.half_bytes;
    for (int64_t i = 0; i < at.half_bytes; ++i) EXPECT_EQ(other[i], 0xFF) << "the other half";
    return {from, from + at.half_bytes};
  }
};
template <class T>
void expect_bytes(const std::vector<T>& a, const std::vector<T>& b, const char* what,
                  size_t begin = 0, size_t end = SIZE_MAX) {
  for (size_t i = begin; i < std::min(end, a.size()); ++i)
    ASSERT_EQ(std::memcmp(&a[i], &b[i], sizeof(T)), 0) << what << ", element " << i;
}

// For each of `grids`; at first the workspace's word is garbage, then either half is clear.
void expect_launches(const std::vector<Shape>& shapes, const std::vector<int>& grids) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  for (const Shape& s : shapes) {
    SCOPED_TRACE(testing::Message()
                 << "T " << s.tokens << ", E " << s.experts << ", H " << s.hidden);
    const auto random = [&](int64_t n, float size) {
      std::vector<float> v;
      for (int64_t i = 0; i < n; ++i) v.push_back(size * normal(rng));
      return v;
    };
    std::vector<Bf16> x;
    for (const float v : random(s.tokens * s.hidden, 1.0F))
      x.push_back(formats::bf16_from_f32(std::ldexp(v, static_cast<int>(rng() % 8))));
    for (int i = 0; i < 32; ++i) x[size_of(i)] = Bf16{0};
    x[33 % x.size()] = Bf16{0x7FC0};
    const OnDevice<Bf16> d_x(x);
    const OnDevice<float> logits(random(s.tokens * s.experts, 2.0F)), bias(random(s.experts, 0.1F));
    const cuda::PairLayer layer(
        {.hidden = s.hidden, .intermediate = s.intermediate, .experts = s.local});
    bool is_wide = false;
    const OnDevice<uint8_t> packed(layer.packed(is_wide));
    ExpertsArgs experts;
    cuda::ExpertGemmArgs& g = experts.gemm;
    g.weights.data = packed.get();
    g.weights.sizes = layouts::stream_sizes(layer.expert(0));
    g.weights.order = layouts::StreamOrder::kE4m3;
    g.weights.is_wide = is_wide;
    g.weights.experts = s.local;
    g.tokens = s.tokens;
    g.top_k = s.top_k;
    g.hidden = s.hidden;
    g.intermediate = s.intermediate;
    g.activations = Activations::kMxfp8;
    const ExpertsWorkspace at = experts_workspace(g);
    const Outputs one(s, at.bytes), many(s, at.bytes);
    const OnDevice<uint8_t> codes(std::vector<uint8_t>(x.size())),
        scales(std::vector<uint8_t>(x.size() / 32));
    const auto topk_of = [&](const Outputs& o) {
      TopkArgs t{};
      t.logits = logits.get();
      t.tokens = s.tokens;
      t.experts = s.experts;
      t.router.top_k = s.top_k;
      t.bias = bias.get();
      t.topk_ids = o.ids.get();
      t.topk_weights = o.weights.get();
      return t;
    };
    const auto experts_of = [&](const Outputs& o) {
      ExpertsArgs a = experts;
      a.gemm.x_quant = codes.get();
      a.gemm.x_scale = scales.get();
      a.gemm.record = o.record.get();
      a.gemm.permuted = o.permuted.get();
      a.gemm.workspace = o.workspace.get();
      a.gemm.workspace_bytes = at.bytes;
      a.gemm.slot_row = o.slot_row.get();
      a.topk_weights = o.weights.get();
      a.y = o.y.get();
      return a;
    };
    const auto expect_ok = [](const Status& status) { ASSERT_TRUE(status.ok()) << status.why; };
    expect_ok(prepare_experts());
    expect_ok(cuda::launch_topk(topk_of(many), nullptr));
    expect_ok(cuda::launch_mxfp8_quantize(
        {d_x.get(), s.tokens, s.hidden, ScaleLayout::kLinear, codes.get(), scales.get()}, nullptr));
    expect_ok(cuda::launch_route({.topk_ids = {many.ids.get(), false},
                                  .tokens = s.tokens,
                                  .top_k = s.top_k,
                                  .experts = s.local,
                                  .permuted = many.permuted.get(),
                                  .record = many.record.get(),
                                  .first_expert = s.first},
                                 nullptr));
    expect_ok(check_experts(experts_of(many)));
    expect_ok(launch_make_ready(experts_of(many), nullptr));
    expect_ok(launch_experts(experts_of(many), experts_ctas(), nullptr));
    for (const int ctas : grids) {
      SCOPED_TRACE(ctas);
      ExpertsArgs all = experts_of(one);
      all.front = {.x = d_x.get(),
                   .topk = topk_of(one),
                   .first_expert = s.first,
                   .permuted = one.permuted.get(),
                   .record = one.record.get()};
      expect_ok(check_experts(all));
      expect_ok(launch_experts(all, ctas, nullptr));
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      expect_bytes(one.ids.back(), many.ids.back(), "ids");
      expect_bytes(one.weights.back(), many.weights.back(), "weights");
      expect_bytes(one.permuted.back(), many.permuted.back(), "permuted");
      expect_bytes(one.record.back(), many.record.back(), "record");
      expect_bytes(one.slot_row.back(), many.slot_row.back(), "slot_row");
      expect_bytes(one.y.back(), many.y.back(), "y");
      const auto of_one = one.half(at), of_many = many.half(at);
      const int64_t x_bytes = g.weights.sizes.w13.pairs *
                              int64_t{ActivationRecord::bytes(
                                  ActivationRecord::padded_rows(static_cast<int>(s.tokens)))};
      expect_bytes(of_one, of_many, "x", 0, size_of(x_bytes));
      expect_bytes(of_one, of_many, "h and rows", size_of(at.h_at));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(ExpertsFront, IsTheLaunchesThatItStandsFor) {
  const int ctas = experts_ctas();
  expect_launches({{8, 384, 384, 0, 6, 1024, 64},
                   {1, 384, 384, 0, 6, 1024, 64},
                   {5, 512, 512, 0, 8, 608, 96},
                   {3, 40, 40, 0, 1, 32, 32},
                   {2, 200, 200, 0, 4, 5120, 32},
                   {7, 64, 16, 32, 6, 2880, 32}},
                  {ctas, ctas, ctas});
}
TEST(ExpertsFront, IsTheLaunchesWithFewOfItsExperts) {  // or none of this rank's
  const int ctas = experts_ctas();
  expect_launches({{1, 64, 4, 60, 6, 512, 64},
                   {2, 64, 1, 0, 1, 512, 64},
                   {8, 64, 2, 60, 6, 1024, 96},
                   {3, 512, 1, 511, 1, 512, 64}},
                  {ctas, ctas, 1});
}
TEST(ExpertsFront, IsTheLaunchesOnAnyGrid) {
  const int ctas = experts_ctas();
  expect_launches({{8, 384, 384, 0, 6, 1024, 64},
                   {8, 16, 16, 0, 8, 5120, 2048},  // h has one slot
                   {1, 64, 4, 60, 6, 512, 64}},
                  {ctas, ctas, 1, 7, 500});
}

}  // namespace
}  // namespace octet::sm90
