// SPDX-License-Identifier: Apache-2.0
// A decode step's routed experts on a device, from logits and x to y: MXFP4 weights with MXFP8 activations, MXFP4 and NVFP4 weights with BF16
// ones, in turns.
//
//   bench_layer [DATE]    prints a report: JSON with "what": "layer"
//
//   ready    make_ready alone, MXFP8
//   experts  (make_ready and) the experts from a routing record    layer   the experts with the front in their launch
//
// Timed: replays of a graph of 48 layers in a row, each with its own routing, the weights of 4 layers (7.2 GB) in turn, so that nothing of
// them is in L2; programmatic edges between all kernels. After 15 ms of idling before each replay (the clock is at its highest then), and
// sustained, one replay after the other. Microseconds a layer, least and median. floor: the bytes of a layer's experts at the read ceiling,
// which is measured in the same run over all the weights (read_ceiling.cuh).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cuda/front.h"
#include "formats/bf16.h"
#include "graph_time.cuh"
#include "read_ceiling.cuh"
#include "routing/record.h"
#include "sm90/experts_mxfp8.h"

namespace octet::sm90 {
namespace {

constexpr int kLayers = 4, kSustained = 200;
constexpr int64_t kExperts = 384, kTopK = 6, kHidden = 5120, kIntermediate = 576;

using cuda::check, cuda::Graph, cuda::kLaunches, cuda::kReplays, cuda::on_device, cuda::Times;

__device__ uint32_t hash(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return static_cast<uint32_t>(x ^ x >> 33);
}
// Any codes are codes; MXFP4 scales 2^-10 ... 2^-5, NVFP4 ones 0 ... 15 * 2^-9.
__global__ void fill_weights(uint32_t* words, int64_t count, WeightFormat format) {
  const int64_t record_words = layouts::stream_record_bytes(format) / 4;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    uint32_t v = hash(static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15ULL);
    if (i % record_words >= layouts::kStreamCodeBytes / 4) {
      constexpr uint32_t kLowFourBitsOfMagnitudes = 0x78F078F0U;  // stream_nv_scale_word()
      uint32_t scales = 0;
      for (int b = 0; b < 4; ++b) scales |= (117 + (v >> (8 * b) & 0xFF) % 6) << (8 * b);
      v = format == WeightFormat::kMxfp4 ? layouts::stream_mx_scale_word(scales)
                                         : v & kLowFourBitsOfMagnitudes;
    }
    words[i] = v;
  }
}

struct Case {
  int64_t rows, experts;  // experts: distinct ones a layer, 0: as the router likes
};
struct Formats {
  Activations activations;
  WeightFormat weights;
};
constexpr Formats kFormats[] = {{Activations::kMxfp8, WeightFormat::kMxfp4},
                                {Activations::kBf16, WeightFormat::kMxfp4},
                                {Activations::kBf16, WeightFormat::kNvfp4}};

class Bench {
 public:
  explicit Bench(const Formats& of) : formats_(of) {
    const layouts::WeightView up{.format = of.weights, .rows = kIntermediate, .cols = kHidden},
        down{.format = of.weights, .rows = kHidden, .cols = kIntermediate};
    layouts::ExpertWeights e;
    e.gate = e.up = up;
    e.down = down;
    sizes_ = layouts::stream_sizes(e);
    layer_bytes_ = kExperts * sizes_.expert_bytes();
    check(cudaMalloc(&weights_, static_cast<size_t>(kLayers * layer_bytes_)));
    fill_weights<<<2048, 256>>>(reinterpret_cast<uint32_t*>(weights_), kLayers * layer_bytes_ / 4,
                                of.weights);
    check(cudaDeviceSynchronize());
    check(prepare_experts(of.activations, of.weights));
    bias_ = on_device(normal(kExperts, 0.1F));
    limit_ = on_device(std::vector<float>(kExperts, 10.0F));
    y_ = on_device<Bf16>(8 * kHidden);
    std::vector<Bf16> x;
    for (const float v : normal(8 * kHidden, 1.0F)) x.push_back(formats::bf16_from_f32(v));
    x_ = on_device(x);
  }

  double read_gb_s() const { return sm90::read_gb_s(weights_, kLayers * layer_bytes_); }

  void run(const Case& c, double read_gb_s, bool is_last);

 private:
  std::vector<float> normal(int64_t count, float size) {
    std::normal_distribution<float> n(0.0F, size);
    std::vector<float> v;
    for (int64_t i = 0; i < count; ++i) v.push_back(n(rng_));
    return v;
  }
  // Of one layer: where A is given, slot i likes expert i % A of a random order best.
  std::vector<float> logits(const Case& c) {
    std::vector<float> l = normal(c.rows * kExperts, 1.5F);
    if (c.experts == 0) return l;
    std::vector<int64_t> order(kExperts);
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    std::shuffle(order.begin(), order.end(), rng_);
    for (float& v : l) v -= 6.0F;
    for (int64_t i = 0; i < c.rows * kTopK; ++i)
      l[static_cast<size_t>(i / kTopK * kExperts + order[static_cast<size_t>(i % c.experts)])] =
          8.0F + 0.3F * normal(1, 1.0F)[0];
    return l;
  }

  Formats formats_;
  std::mt19937 rng_{1};
  layouts::StreamSizes sizes_;
  int64_t layer_bytes_ = 0;
  int ctas_ = experts_ctas();
  uint8_t* weights_ = nullptr;
  float *bias_ = nullptr, *limit_ = nullptr;
  Bf16 *x_ = nullptr, *y_ = nullptr;
};

void Bench::run(const Case& c, double read_gb_s, bool is_last) {
  const int64_t slots = c.rows * kTopK, ctas = routing::max_ctas(c.rows, kTopK, kExperts);
  FrontArgs front[kLaunches];
  ExpertsArgs experts_of[kLaunches];
  auto* const codes = on_device<uint8_t>(c.rows * kHidden);
  auto* const scales = on_device<uint8_t>(c.rows * kHidden / kMxBlock);
  auto* const slot_row = on_device<int32_t>(slots);
  const bool has_ready = formats_.activations == Activations::kMxfp8;
  uint8_t* workspace = nullptr;
  double experts = 0;
  for (int i = 0; i < kLaunches; ++i) {
    FrontArgs& f = front[i];
    f.quantize = {x_, c.rows, kHidden, ScaleLayout::kLinear, codes, scales};
    f.topk.logits = on_device(logits(c));
    f.topk.bias = bias_;
    f.topk.tokens = c.rows;
    f.topk.experts = kExperts;
    f.topk.router.top_k = kTopK;
    f.topk.router.scale = 1.5F;
    f.topk.topk_ids = on_device<int32_t>(slots);
    f.topk.topk_weights = on_device<float>(slots);
    f.permuted = on_device<int32_t>(slots);
    f.record = on_device<int32_t>(routing::record_words(ctas));
    ExpertsArgs& all = experts_of[i];
    cuda::ExpertGemmArgs& a = all.gemm;
    a.weights.data = weights_ + i % kLayers * layer_bytes_;
    a.weights.sizes = sizes_;
    a.weights.order = experts_order(formats_.activations);
    a.weights.experts = kExperts;
    a.weights.limit = limit_;
    a.tokens = c.rows;
    a.top_k = kTopK;
    a.hidden = kHidden;
    a.intermediate = kIntermediate;
    a.activations = formats_.activations;
    a.x = x_;
    a.x_quant = codes;
    a.x_scale = scales;
    a.record = f.record;
    a.permuted = f.permuted;
    a.workspace_bytes = experts_workspace(a).bytes;
    if (workspace == nullptr) workspace = on_device<uint8_t>(a.workspace_bytes);
    a.workspace = workspace;
    a.slot_row = slot_row;
    all.topk_weights = f.topk.topk_weights;
    all.y = y_;
    check(check_experts(all));
    check(cuda::launch_front(f, nullptr));
    if (has_ready) check(launch_make_ready(all, nullptr));
    check(launch_experts(all, ctas_, nullptr));
    int32_t tiles = 0;
    check(cudaMemcpy(&tiles, f.record + 1, sizeof tiles, cudaMemcpyDeviceToHost));
    experts += static_cast<double>(tiles) / kLaunches;
  }
  struct Variant {
    const char* name;
    std::function<void(int, cudaStream_t)> launch;
  };
  const auto layer_of = [&](int i) {
    ExpertsArgs all = experts_of[i];
    all.front = {
        .x = x_, .topk = front[i].topk, .permuted = front[i].permuted, .record = front[i].record};
    return all;
  };
  const Variant variants[] = {
      {"ready", [&](int i, cudaStream_t s) { check(launch_make_ready(experts_of[i], s)); }},
      {"experts",
       [&](int i, cudaStream_t s) {
         if (has_ready) check(launch_make_ready(experts_of[i], s));
         check(launch_experts(experts_of[i], ctas_, s));
       }},
      {"layer",
       [&](int i, cudaStream_t s) {
         const ExpertsArgs all = layer_of(i);
         check(check_experts(all));
         check(launch_experts(all, ctas_, s));
       }},
  };
  const double floor_us = experts * static_cast<double>(sizes_.expert_bytes()) / read_gb_s / 1e3;
  std::printf(
      "    {\"activations\": \"%s\", \"weights\": \"%s\", \"rows\": %d, \"experts\": %.1f, "
      "\"floor_us\": %.2f",
      std::string(name_of(formats_.activations)).c_str(),
      std::string(name_of(formats_.weights)).c_str(), static_cast<int>(c.rows), experts, floor_us);
  for (const Variant& v : variants) {
    if (!has_ready && v.name == std::string("ready")) continue;
    Graph graph([&](cudaStream_t s) {
      for (int i = 0; i < kLaunches; ++i) v.launch(i, s);
    });
    const Times idle = graph.time(kReplays, 15, kLaunches),
                busy = graph.time(kSustained, 0, kLaunches);
    std::printf(", \"%s_us\": [%.2f, %.2f], \"%s_ratio\": %.3f, \"%s_sustained_us\": [%.2f, %.2f]",
                v.name, idle.least, idle.median, v.name, idle.median / floor_us, v.name, busy.least,
                busy.median);
  }
  std::printf("}%s\n", is_last ? "" : ",");
  std::fflush(stdout);
}

int run(const char* date) {
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0));
  std::vector<std::unique_ptr<Bench>> benches;
  for (const Formats& of : kFormats) benches.push_back(std::make_unique<Bench>(of));
  const double gb_s = benches[0]->read_gb_s();
  std::printf("{\n  \"what\": \"layer\", \"device\": \"%s\", \"sms\": %d, \"date\": \"%s\",\n",
              device.name, device.multiProcessorCount, date);
  std::printf(
      "  \"experts\": %d, \"top_k\": %d, \"hidden\": %d, \"intermediate\": %d, \"launches\": %d, "
      "\"replays\": %d,\n",
      static_cast<int>(kExperts), static_cast<int>(kTopK), static_cast<int>(kHidden),
      static_cast<int>(kIntermediate), kLaunches, kReplays);
  std::printf("  \"read_gb_s\": %.0f,\n  \"results\": [\n", gb_s);
  constexpr Case kCases[] = {{1, 0}, {2, 0}, {4, 0}, {6, 0}, {8, 0}, {6, 22}};
  for (const Case& c : kCases)
    for (const auto& bench : benches)
      bench->run(c, gb_s, &c == std::end(kCases) - 1 && bench == benches.back());
  std::printf("  ]\n}\n");
  return 0;
}

}  // namespace
}  // namespace octet::sm90

int main(int argc, char** argv) { return octet::sm90::run(argc > 1 ? argv[1] : ""); }
