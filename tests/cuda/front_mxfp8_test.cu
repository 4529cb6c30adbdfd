// SPDX-License-Identifier: Apache-2.0
// Needs an SM 9.0 device. front_mxfp8 against the launches that it stands for: launch_front() and launch_make_ready(), every byte.
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "cuda/front.h"
#include "formats/bf16.h"
#include "on_device.h"
#include "routing/record.h"
#include "sm90/front_mxfp8.h"

namespace octet::sm90 {
namespace {

using cuda::OnDevice;

struct Shape {
  int64_t tokens, experts, local, first, top_k, hidden, intermediate;
};

// What one of the two ways wrote; every byte was 0xA5.
struct Outputs {
  OnDevice<int32_t> ids, permuted, record;
  OnDevice<float> weights;
  OnDevice<uint8_t> workspace;
  OnDevice<Bf16> rows;
  Outputs(const Shape& s, int64_t bytes)
      : ids(poison<int32_t>(s.tokens * s.top_k)),
        permuted(poison<int32_t>(s.tokens * s.top_k)),
        record(
            poison<int32_t>(routing::record_words(routing::max_ctas(s.tokens, s.top_k, s.local)))),
        weights(poison<float>(s.tokens * s.top_k)),
        workspace(poison<uint8_t>(bytes)),
        rows(poison<Bf16>(s.tokens * s.top_k * s.hidden)) {}
  template <class T>
  static std::vector<T> poison(int64_t count) {
    std::vector<T> v(static_cast<size_t>(count) + 16);
    std::memset(static_cast<void*>(v.data()), 0xA5, v.size() * sizeof(T));
    return v;
  }
};
template <class T>
void expect_bytes(const OnDevice<T>& got, const OnDevice<T>& want, const char* what) {
  const auto a = got.back(), b = want.back();
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_EQ(std::memcmp(&a[i], &b[i], sizeof(T)), 0) << what << ", element " << i;
}

TEST(FrontMxfp8, IsTheLaunchesThatItStandsFor) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  for (const Shape& s : {Shape{8, 384, 384, 0, 6, 5120, 576},
                         {1, 384, 384, 0, 6, 5120, 576},
                         {5, 512, 512, 0, 8, 608, 96},
                         {3, 40, 40, 0, 1, 32, 32},
                         {7, 64, 16, 32, 6, 2880, 32}}) {
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
    for (int i = 0; i < 32; ++i) x[static_cast<size_t>(i)] = Bf16{0};
    x[33 % x.size()] = Bf16{0x7FC0};
    const OnDevice<Bf16> d_x(x);
    const OnDevice<float> logits(random(s.tokens * s.experts, 2.0F)), bias(random(s.experts, 0.1F));
    layouts::ExpertWeights e;
    e.gate = e.up = {.rows = s.intermediate, .cols = s.hidden};
    e.down = {.rows = s.hidden, .cols = s.intermediate};
    ExpertsArgs experts;
    experts.gemm.weights.sizes = layouts::stream_sizes(e);
    experts.gemm.weights.order = layouts::StreamOrder::kE4m3;
    experts.gemm.weights.experts = s.local;
    experts.gemm.tokens = s.tokens;
    experts.gemm.top_k = s.top_k;
    experts.gemm.hidden = s.hidden;
    experts.gemm.intermediate = s.intermediate;
    experts.gemm.activations = Activations::kMxfp8;
    const int64_t bytes = experts_workspace(experts.gemm).bytes;
    const Outputs one(s, bytes), many(s, bytes);
    const OnDevice<uint8_t> codes(std::vector<uint8_t>(x.size())),
        scales(std::vector<uint8_t>(x.size() / 32));
    const OnDevice<Bf16> y(std::vector<Bf16>(static_cast<size_t>(s.tokens * s.hidden)));
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
      a.gemm.workspace_bytes = bytes;
      a.gemm.rows = o.rows.get();
      a.topk_weights = o.weights.get();
      a.y = y.get();
      return a;
    };
    ASSERT_TRUE(cuda::launch_topk(topk_of(many), nullptr).ok());
    ASSERT_TRUE(cuda::launch_mxfp8_quantize({d_x.get(), s.tokens, s.hidden, ScaleLayout::kLinear,
                                             codes.get(), scales.get()},
                                            nullptr)
                    .ok());
    ASSERT_TRUE(cuda::launch_route({.topk_ids = {many.ids.get(), false},
                                    .tokens = s.tokens,
                                    .top_k = s.top_k,
                                    .experts = s.local,
                                    .permuted = many.permuted.get(),
                                    .record = many.record.get(),
                                    .first_expert = s.first},
                                   nullptr)
                    .ok());
    ASSERT_TRUE(launch_make_ready(experts_of(many), nullptr).ok());
    const Status status = launch_front_mxfp8({.x = d_x.get(),
                                              .topk = topk_of(one),
                                              .first_expert = s.first,
                                              .permuted = one.permuted.get(),
                                              .record = one.record.get(),
                                              .experts = experts_of(one)},
                                             nullptr);
    ASSERT_TRUE(status.ok()) << status.why;
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    expect_bytes(one.ids, many.ids, "ids");
    expect_bytes(one.weights, many.weights, "weights");
    expect_bytes(one.permuted, many.permuted, "permuted");
    expect_bytes(one.record, many.record, "record");
    expect_bytes(one.workspace, many.workspace, "workspace");
    expect_bytes(one.rows, many.rows, "rows");
    const auto rows = one.rows.back();
    for (int64_t i = 0; i < s.tokens * s.top_k * s.hidden; ++i)
      ASSERT_EQ(rows[static_cast<size_t>(i)].bits, 0xFFFF);
  }
}

}  // namespace
}  // namespace octet::sm90
