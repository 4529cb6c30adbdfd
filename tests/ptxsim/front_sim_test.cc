// SPDX-License-Identifier: Apache-2.0
// The kernels of src/cuda/front.cu and finalize_bf16.cu in the simulator, as nvcc emits them: the CPU's bytes.
#include <cmath>
#include <random>

#include "core/executor.h"
#include "cpu/ops.h"
#include "formats/bf16.h"
#include "layouts/scale_layout.h"
#include "routing/record.h"
#include "routing/topk.h"
#include "sim_device.h"

namespace octet::sim {
namespace {

using ptxsim::machine::Dim3;

constexpr uint64_t kSeeds = 3;

std::vector<Bf16> rows(int64_t count, std::mt19937& rng) {
  std::normal_distribution<float> normal;
  std::vector<Bf16> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) {
    const auto kind = i / kMxBlock % 8;
    x[i] =
        formats::bf16_from_f32(std::ldexp(normal(rng), static_cast<int>(i / kMxBlock % 250) - 125));
    if (kind == 1) x[i] = {static_cast<uint16_t>(rng() & 0x80FF)};  // subnormals
    if (kind == 2) x[i] = {static_cast<uint16_t>(rng())};           // anything
    if (kind == 3) x[i] = {static_cast<uint16_t>(rng() & 0x8000)};  // zeros
  }
  return x;
}

TEST(SimFront, QuantizesAsTheCpu) {
  std::mt19937 rng(1);
  InlineExecutor one;
  for (const auto& settings : all_times(1)) {
    for (const auto& [tokens, width] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 32}, {3, 96}, {8, 1024}, {6, 5120}}) {
      const auto x = rows(tokens * width, rng);
      std::vector<uint8_t> codes(static_cast<size_t>(tokens * width)),
          scales(static_cast<size_t>(tokens * width / kMxBlock));
      cpu::mxfp8_quantize(
          {x.data(), tokens, width, ScaleLayout::kLinear, codes.data(), scales.data()}, one);
      Device device(settings);
      const QuantizeArgs args{device.put(x, "x"),
                              tokens,
                              width,
                              ScaleLayout::kLinear,
                              device.make<uint8_t>(tokens * width, "x_quant"),
                              device.make<uint8_t>(tokens * width / kMxBlock, "x_scale")};
      const auto blocks = static_cast<uint32_t>(ceil_div(tokens * width / 8, 256));
      const Status status = device.run("quantize_kernel", {blocks}, 256, args);
      ASSERT_TRUE(status.ok()) << shown(settings) << ": " << status.why;
      EXPECT_EQ(device.back(args.x_quant, tokens * width), codes)
          << shown(settings) << ", " << tokens << " x " << width;
      EXPECT_EQ(device.back(args.x_scale, tokens * width / kMxBlock), scales) << shown(settings);
    }
  }
}

TEST(SimFront, RoutesAsTheCpu) {
  std::mt19937 rng(2);
  for (const auto& settings : all_times(kSeeds)) {
    for (const auto& [tokens, top_k, experts] :
         std::vector<std::array<int64_t, 3>>{{1, 6, 96}, {6, 6, 96}, {8, 8, 512}, {100, 4, 384}}) {
      std::vector<int32_t> ids(static_cast<size_t>(tokens * top_k));
      for (int32_t& id : ids)
        id = rng() % 16 == 0 ? -1 : static_cast<int32_t>(rng() % static_cast<unsigned>(experts));
      const int64_t words = routing::record_words(routing::max_ctas(tokens, top_k, experts));
      std::vector<int32_t> permuted(ids.size()), record(static_cast<size_t>(words));
      routing::route({{ids.data(), false}, tokens, top_k, experts, permuted.data(), record.data()});
      Device device(settings);
      const RouteArgs args{{device.put(ids, "topk_ids"), false},
                           tokens,
                           top_k,
                           experts,
                           device.make<int32_t>(tokens * top_k, "permuted"),
                           device.make<int32_t>(words, "record")};
      const Status status = device.run("route_kernel", {1}, 512, args);
      ASSERT_TRUE(status.ok()) << shown(settings) << ": " << status.why;
      EXPECT_EQ(device.back(args.permuted, tokens * top_k), permuted) << shown(settings);
      EXPECT_EQ(device.back(args.record, words), record) << shown(settings);
    }
  }
}

TEST(SimFinalize, IsTheCpusBytes) {
  std::mt19937 rng(3);
  InlineExecutor one;
  std::normal_distribution<float> normal;
  for (const auto& settings : all_times(kSeeds)) {
    for (const bool has_shared : {false, true}) {
      const int64_t tokens = 5, top_k = 6, hidden = 1032, slots = 40;
      std::vector<Bf16> routed(static_cast<size_t>(slots * hidden)),
          shared(static_cast<size_t>(tokens * hidden));
      for (Bf16& v : routed) v = formats::bf16_from_f32(normal(rng));
      for (Bf16& v : shared) v = formats::bf16_from_f32(normal(rng));
      std::vector<float> weights(static_cast<size_t>(tokens * top_k));
      for (float& v : weights) v = normal(rng);
      std::vector<int32_t> permuted(weights.size());
      for (int32_t& v : permuted) v = static_cast<int32_t>(rng() % 41) - 1;
      std::vector<Bf16> y(static_cast<size_t>(tokens * hidden));
      FinalizeArgs args{
          routed.data(), weights.data(), permuted.data(), has_shared ? shared.data() : nullptr,
          1.25F,         tokens,         top_k,           hidden,
          y.data()};
      cpu::finalize(args, one);
      Device device(settings);
      args.rows = device.put(routed, "rows");
      args.topk_weights = device.put(weights, "topk_weights");
      args.permuted = device.put(permuted, "permuted");
      if (has_shared) args.shared = device.put(shared, "shared");
      args.y = device.make<Bf16>(tokens * hidden, "y");
      const Status status = device.run("finalize_kernel", {2, 5}, 128, args);
      ASSERT_TRUE(status.ok()) << shown(settings) << ": " << status.why;
      const auto got = device.back(args.y, tokens * hidden);
      EXPECT_EQ(std::memcmp(got.data(), y.data(), y.size() * sizeof(Bf16)), 0) << shown(settings);
    }
  }
}

}  // namespace
}  // namespace octet::sim
