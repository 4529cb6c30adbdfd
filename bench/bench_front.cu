// SPDX-License-Identifier: Apache-2.0
// What comes before the experts, on a device: front in one launch beside its three kernels, and the launch of an empty kernel.
//
//   bench_front [DATE]    prints a report: JSON with "what": "front"
//
// Timed: graph_time.cuh; an empty kernel has a programmatic edge to the one before, too.
#include <cstdio>
#include <random>
#include <vector>

#include "cuda/front.h"
#include "cuda/launch.h"
#include "formats/bf16.h"
#include "graph_time.cuh"
#include "routing/record.h"

namespace octet::cuda {
namespace {

constexpr int64_t kExperts = 384, kTopK = 6, kHidden = 5120;

struct Nothing {};
__global__ void empty_kernel(const __grid_constant__ Nothing) {
  let_next_begin();
  wait_for_previous();
}

int run(const char* date) {
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0));
  std::printf("{\n  \"what\": \"front\", \"device\": \"%s\", \"sms\": %d, \"date\": \"%s\",\n",
              device.name, device.multiProcessorCount, date);
  std::printf(
      "  \"experts\": %d, \"top_k\": %d, \"hidden\": %d, \"launches\": %d, \"replays\": %d,\n",
      static_cast<int>(kExperts), static_cast<int>(kTopK), static_cast<int>(kHidden), kLaunches,
      kReplays);
  const Times nothing = time_of(
      [](cudaStream_t s, int) { check(launch("empty", empty_kernel, dim3(1), 32, Nothing{}, s)); });
  std::printf("  \"empty_kernel_us\": [%.2f, %.2f],\n  \"results\": [\n", nothing.least,
              nothing.median);
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  for (const int64_t rows : {1, 2, 4, 6, 8}) {
    std::vector<float> logits(static_cast<size_t>(rows * kExperts)), bias(kExperts);
    std::vector<Bf16> x(static_cast<size_t>(rows * kHidden));
    for (float& v : logits) v = normal(rng);
    for (float& v : bias) v = 0.1F * normal(rng);
    for (Bf16& v : x) v = formats::bf16_from_f32(normal(rng));
    FrontArgs a{};
    a.quantize = {on_device(x),
                  rows,
                  kHidden,
                  ScaleLayout::kLinear,
                  on_device<uint8_t>(rows * kHidden),
                  on_device<uint8_t>(rows * kHidden / kMxBlock)};
    a.topk.logits = on_device(logits);
    a.topk.bias = on_device(bias);
    a.topk.tokens = rows;
    a.topk.experts = kExperts;
    a.topk.router.top_k = kTopK;
    a.topk.topk_ids = on_device<int32_t>(rows * kTopK);
    a.topk.topk_weights = on_device<float>(rows * kTopK);
    a.permuted = on_device<int32_t>(rows * kTopK);
    a.record = on_device<int32_t>(routing::record_words(routing::max_ctas(rows, kTopK, kExperts)));
    const RouteArgs route{{a.topk.topk_ids, false}, rows, kTopK, kExperts, a.permuted, a.record};
    const Times one = time_of([&](cudaStream_t s, int) { check(launch_front(a, s)); });
    const Times three = time_of([&](cudaStream_t s, int) {
      check(launch_topk(a.topk, s));
      check(launch_mxfp8_quantize(a.quantize, s));
      check(launch_route(route, s));
    });
    const auto alone = [&](const Times& t) { return std::vector<double>{t.least, t.median}; };
    const auto topk = alone(time_of([&](cudaStream_t s, int) { check(launch_topk(a.topk, s)); }));
    const auto quantize =
        alone(time_of([&](cudaStream_t s, int) { check(launch_mxfp8_quantize(a.quantize, s)); }));
    const auto record = alone(time_of([&](cudaStream_t s, int) { check(launch_route(route, s)); }));
    std::printf(
        "    {\"rows\": %d, \"front_us\": [%.2f, %.2f], \"three_us\": [%.2f, %.2f], \"topk_us\": "
        "[%.2f, %.2f], "
        "\"mxfp8_quantize_us\": [%.2f, %.2f], \"route_us\": [%.2f, %.2f]}%s\n",
        static_cast<int>(rows), one.least, one.median, three.least, three.median, topk[0], topk[1],
        quantize[0], quantize[1], record[0], record[1], rows == 8 ? "" : ",");
  }
  std::printf("  ]\n}\n");
  return 0;
}

}  // namespace
}  // namespace octet::cuda

int main(int argc, char** argv) { return octet::cuda::run(argc > 1 ? argv[1] : ""); }
