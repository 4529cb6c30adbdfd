// SPDX-License-Identifier: Apache-2.0
// The routed experts on BF16 tensor cores: GEMM pair, and the chain from logits and x to y, weights cold.
//
//   bench_experts [DATE]    prints a report: JSON with "what": "pair"
//
// Timed: graph_time.cuh. E 384, k 6, H 5120, I 576; the weights of 4 layers (7.2 GB) are taken in turn and the routing is another one in
// each launch, so that nothing is found in the L2 cache. Random codes and scales. floor: codes and scales of the
// experts that a launch reads, over 4607 GB/s, the most that an H200 was seen to read (docs/kernels/expert_gemm_bf16.md).
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "cuda/expert_gemm_bf16.h"
#include "cuda/finalize_bf16.h"
#include "cuda/front.h"
#include "formats/bf16.h"
#include "graph_time.cuh"
#include "routing/record.h"

namespace octet::cuda {
namespace {

using layouts::StreamOrder;

constexpr int64_t kExperts = 384, kTopK = 6, kHidden = 5120, kIntermediate = 576, kLayers = 4;
constexpr double kReadGbs = 4607;

__device__ uint32_t scrambled(uint64_t x) {
  x = (x ^ x >> 33) * 0xFF51AFD7ED558CCDULL;
  x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53ULL;
  return static_cast<uint32_t>(x >> 32);
}
// Whole records: random codes, scale words of a table.
constexpr int kScaleWords = 256;
__global__ void fill_records(uint32_t* words, int64_t count, int record_words,
                             const uint32_t* scales) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * blockDim.x) {
    const uint32_t r = scrambled(static_cast<uint64_t>(i));
    words[i] = i % record_words < layouts::kStreamCodeBytes / 4 ? r : scales[r % kScaleWords];
  }
}
// Of UE8M0 117 ... 122, or E4M3 2^-2 ... 15 * 2^-2.
std::vector<uint32_t> scale_words(WeightFormat format) {
  std::mt19937 rng(3);
  std::vector<uint32_t> words;
  for (int i = 0; i < kScaleWords; ++i) {
    uint32_t scales = 0;
    for (int b = 0; b < 32; b += 8) {
      const auto r = static_cast<uint32_t>(rng());
      scales |= (format == WeightFormat::kMxfp4 ? 117 + r % 6 : 0x28 + r % 32) << b;
    }
    words.push_back(format == WeightFormat::kMxfp4 ? layouts::stream_mx_scale_word(scales)
                                                   : layouts::stream_nv_scale_word(scales));
  }
  return words;
}

layouts::StreamSizes sizes_of(WeightFormat format) {
  layouts::ExpertWeights e;
  e.gate = {.format = format, .rows = kIntermediate, .cols = kHidden};
  e.up = e.gate;
  e.down = {.format = format, .rows = kHidden, .cols = kIntermediate};
  return layouts::stream_sizes(e);
}

struct Case {
  int64_t rows, experts;  // 0: as they come
};
constexpr Case kCases[] = {{1, 0}, {2, 0}, {4, 0}, {6, 0}, {6, 22}, {8, 0}};

// One launch's routing: logits whose largest are the chosen experts', and what `route` makes of their ids.
struct Routing {
  const float* logits;
  int32_t *ids, *permuted, *record;
  int64_t experts;
};
Routing random_routing(const Case& c, std::mt19937& rng) {
  std::vector<int32_t> all(kExperts);
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), rng);
  std::vector<int32_t> ids;
  std::vector<float> logits(static_cast<size_t>(c.rows * kExperts), -4.0F);
  const int64_t of = c.experts != 0 ? c.experts : kExperts;
  for (int64_t t = 0; t < c.rows; ++t) {
    std::set<int64_t> row;
    while (std::ssize(row) < kTopK) {  // with a number given: each at least once
      const int64_t slot = t * kTopK + std::ssize(row);
      row.insert(c.experts != 0 && slot < of ? slot : static_cast<int64_t>(rng() % of));
    }
    for (const int64_t e : row) {
      ids.push_back(all[static_cast<size_t>(e)]);
      logits[static_cast<size_t>(t * kExperts + ids.back())] =
          1.0F + 0.001F * static_cast<float>(e);
    }
  }
  Routing r{on_device(logits), on_device(ids), on_device<int32_t>(c.rows * kTopK),
            on_device<int32_t>(routing::record_words(routing::max_ctas(c.rows, kTopK, kExperts))),
            std::ssize(std::set<int32_t>(ids.begin(), ids.end()))};
  check(launch_route({{r.ids, false}, c.rows, kTopK, kExperts, r.permuted, r.record}, nullptr));
  return r;
}

struct Variant {
  const char* name;
  WeightFormat weights;
  Activations activations;
  StreamOrder order;
  bool wide;
};
constexpr auto kMx = WeightFormat::kMxfp4, kNv = WeightFormat::kNvfp4;
constexpr Variant kVariants[] = {
    {"mxfp4, bf16", kMx, Activations::kBf16, StreamOrder::kBf16, false},
    {"mxfp4, bf16, wide scales", kMx, Activations::kBf16, StreamOrder::kBf16, true},
    {"mxfp4, bf16, e4m3 order", kMx, Activations::kBf16, StreamOrder::kE4m3, false},
    {"mxfp4, mxfp8", kMx, Activations::kMxfp8, StreamOrder::kBf16, false},
    {"nvfp4, bf16", kNv, Activations::kBf16, StreamOrder::kBf16, false},
    {"nvfp4, mxfp8", kNv, Activations::kMxfp8, StreamOrder::kBf16, false}};

class Timed {
 public:
  Timed(const Variant& v, const Case& c, const uint8_t* weights, std::mt19937& rng)
      : variant_(v), rows_(c.rows), sizes_(sizes_of(v.weights)), weights_(weights) {
    std::normal_distribution<float> normal;
    std::vector<Bf16> x(static_cast<size_t>(rows_ * kHidden));
    for (Bf16& e : x) e = formats::bf16_from_f32(normal(rng));
    for (int i = 0; i < kLaunches; ++i) routings_.push_back(random_routing(c, rng));
    quantize_ = {on_device(x),
                 rows_,
                 kHidden,
                 ScaleLayout::kLinear,
                 on_device<uint8_t>(rows_ * kHidden),
                 on_device<uint8_t>(rows_ * kHidden / kMxBlock)};
    check(launch_mxfp8_quantize(quantize_, nullptr));
    bias_ = on_device<float>(kExperts);
    rows_out_ = on_device<Bf16>(rows_ * kTopK * kHidden);
    slot_row_ = on_device<int32_t>(rows_ * kTopK);
    topk_weights_ = on_device<float>(rows_ * kTopK);
    y_ = on_device<Bf16>(rows_ * kHidden);
    workspace_bytes_ = expert_gemm_bf16_workspace_bytes(sizes_, kExperts, rows_, kTopK,
                                                        kIntermediate, v.activations);
    workspace_ = on_device<uint8_t>(workspace_bytes_);
  }

  void pair(cudaStream_t stream, int launch) const {
    const Routing& r = routings_[static_cast<size_t>(launch)];
    ExpertGemmArgs a;
    a.weights.data = weights_ + launch % kLayers * kExperts * sizes_.expert_bytes();
    a.weights.sizes = sizes_;
    a.weights.order = variant_.order;
    a.weights.is_wide = variant_.wide;
    a.weights.experts = kExperts;
    a.tokens = rows_;
    a.top_k = kTopK;
    a.hidden = kHidden;
    a.intermediate = kIntermediate;
    a.activations = variant_.activations;
    a.x = quantize_.x;
    a.x_quant = quantize_.x_quant;
    a.x_scale = quantize_.x_scale;
    a.record = r.record;
    a.permuted = r.permuted;
    a.workspace = workspace_;
    a.workspace_bytes = workspace_bytes_;
    a.rows = rows_out_;
    a.slot_row = slot_row_;
    check(launch_expert_gemm_bf16(a, {}, stream));
  }
  void chain(cudaStream_t stream, int launch) const {
    const Routing& r = routings_[static_cast<size_t>(launch)];
    TopkArgs topk{};
    topk.logits = r.logits;
    topk.tokens = rows_;
    topk.experts = kExperts;
    topk.router.top_k = kTopK;
    topk.bias = bias_;
    topk.topk_ids = r.ids;
    topk.topk_weights = topk_weights_;
    QuantizeArgs none{};
    none.layout = ScaleLayout::kLinear;
    const bool is_mxfp8 = variant_.activations == Activations::kMxfp8;
    check(launch_front({is_mxfp8 ? quantize_ : none, topk, r.permuted, r.record}, stream));
    pair(stream, launch);
    FinalizeArgs f{};
    f.rows = rows_out_;
    f.topk_weights = topk_weights_;
    f.permuted = slot_row_;
    f.tokens = rows_;
    f.top_k = kTopK;
    f.hidden = kHidden;
    f.y = y_;
    check(launch_finalize_bf16(f, stream));
  }
  double mean_experts() const {
    double sum = 0;
    for (const Routing& r : routings_) sum += static_cast<double>(r.experts);
    return sum / kLaunches;
  }
  double floor_us() const {
    return mean_experts() * static_cast<double>(sizes_.expert_bytes()) / kReadGbs * 1e-3;
  }

 private:
  Variant variant_;
  int64_t rows_;
  layouts::StreamSizes sizes_;
  const uint8_t* weights_;
  std::vector<Routing> routings_;
  QuantizeArgs quantize_;
  const float* bias_;
  Bf16 *rows_out_, *y_;
  int32_t* slot_row_;
  float* topk_weights_;
  uint8_t* workspace_;
  int64_t workspace_bytes_;
};

int run(const char* date) {
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0));
  std::printf("{\n  \"what\": \"pair\", \"device\": \"%s\", \"sms\": %d, \"date\": \"%s\",\n",
              device.name, device.multiProcessorCount, date);
  std::printf("  \"launches\": %d, \"replays\": %d, \"results\": [\n", kLaunches, kReplays);
  uint8_t* weights = nullptr;
  const int64_t most = kLayers * kExperts * sizes_of(kNv).expert_bytes();
  check(cudaMalloc(&weights, static_cast<size_t>(most)));
  const WeightFormat* filled = nullptr;
  for (const Variant& v : kVariants) {
    if (filled == nullptr || *filled != v.weights) {
      const layouts::StreamSizes sizes = sizes_of(v.weights);
      fill_records<<<4096, 256>>>(
          reinterpret_cast<uint32_t*>(weights), kLayers * kExperts * sizes.expert_bytes() / 4,
          static_cast<int>(sizes.w13.record_bytes() / 4), on_device(scale_words(v.weights)));
      check(cudaDeviceSynchronize());
      filled = &v.weights;
    }
    for (const Case& c : kCases) {
      std::mt19937 rng(static_cast<unsigned>(100 * c.rows + c.experts));
      const Timed t(v, c, weights, rng);
      const Times pair = time_of([&](cudaStream_t s, int i) { t.pair(s, i); });
      const Times sustained = time_of([&](cudaStream_t s, int i) { t.pair(s, i); }, 0);
      const Times chain = time_of([&](cudaStream_t s, int i) { t.chain(s, i); });
      check(cudaDeviceSynchronize());
      const double floor = t.floor_us();
      std::printf(
          "    {\"layer\": \"%s\", \"rows\": %d, \"experts\": %.1f, \"floor_us\": %.2f, "
          "\"pair_us\": [%.2f, "
          "%.2f], \"pair_sustained_us\": [%.2f, %.2f], \"chain_us\": [%.2f, %.2f], "
          "\"pair_over_floor\": %.2f}%s\n",
          v.name, static_cast<int>(c.rows), t.mean_experts(), floor, pair.least, pair.median,
          sustained.least, sustained.median, chain.least, chain.median, pair.median / floor,
          &v == &std::end(kVariants)[-1] && &c == &std::end(kCases)[-1] ? "" : ",");
      std::fflush(stdout);
    }
  }
  std::printf("  ]\n}\n");
  return 0;
}

}  // namespace
}  // namespace octet::cuda

int main(int argc, char** argv) { return octet::cuda::run(argc > 1 ? argv[1] : ""); }
