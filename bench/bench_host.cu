// SPDX-License-Identifier: Apache-2.0
// What a decode step's call takes of the host's time: the clock around the call, which enqueues and returns.
//
//   bench_host CHECKPOINT [DATE]    prints a report: JSON with "what": "host_time". CHECKPOINT: octet synth deepseek-v4.1-flash, any size
//
//   enqueue      octet_layer_enqueue of a layer loaded with the backend "cuda", from logits and x to y
//   launch_*     the two launches of Hopper's layer, on an SM 9.0 device
//   empty        a kernel of one thread that does nothing, launched as those are, and <<<>>>: what a launch itself takes
//
// 10,000 calls each. Every 16 of them the stream is waited for, outside the clock, so that no call waits for room in its queue. Microseconds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "cuda/launch.h"
#include "graph_time.cuh"
#include "octet/octet.h"
#include "routing/record.h"
#include "sm90/experts_mxfp8.h"

namespace octet::sm90 {
namespace {

using cuda::check, cuda::on_device;

constexpr int kCalls = 10000, kBurst = 16;
constexpr int64_t kTokens = 8;

void check(octet_status status) {
  if (status == OCTET_OK) return;
  std::fprintf(stderr, "%s\n", octet_last_error());
  std::exit(1);
}

void time_calls(const char* name, const char* what, bool is_first,
                const std::function<void(cudaStream_t)>& call) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream));
  for (int i = 0; i < kBurst; ++i) call(stream);
  check(cudaStreamSynchronize(stream));
  std::vector<double> us;
  for (int i = 0; i < kCalls; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    call(stream);
    const auto end = std::chrono::steady_clock::now();
    us.push_back(std::chrono::duration<double, std::micro>(end - begin).count());
    if (i % kBurst == kBurst - 1) check(cudaStreamSynchronize(stream));
  }
  check(cudaStreamSynchronize(stream));
  check(cudaStreamDestroy(stream));
  std::sort(us.begin(), us.end());
  std::printf(
      "%s    {\"call\": \"%s\", \"of\": \"%s\", \"median_us\": %.2f, \"p99_us\": %.2f, "
      "\"most_us\": %.2f}",
      is_first ? "" : ",\n", name, what, us[us.size() / 2], us[us.size() / 100 * 99], us.back());
}

// The layer's calls as users make them.
class Layer {
 public:
  explicit Layer(const char* path) {
    octet_model* model = nullptr;
    octet_load_options options = OCTET_LOAD_OPTIONS_INIT;
    options.backend = "cuda";
    options.image_sentinel_lo = 0;
    int64_t index = 0;
    check(octet_model_open(path, &model));
    check(octet_model_layer_index(model, 0, &index));
    check(octet_layer_load(model, index, &options, nullptr, &layer_));
    octet_model_close(model);
    check(octet_layer_get_info(layer_, &info));
    std::vector<float> logits;
    for (int64_t i = 0; i < kTokens * info.experts; ++i)
      logits.push_back(static_cast<float>(i * 7 % 11));
    call_.tokens = kTokens;
    call_.x =
        on_device(std::vector<octet_bf16>(static_cast<size_t>(kTokens * info.hidden), 0x3F80));
    call_.logits = on_device(logits);
    call_.y = on_device<octet_bf16>(kTokens * info.hidden);
    check(octet_layer_device_workspace_bytes(layer_, kTokens, 0, &bytes_));
    workspace_ = on_device<char>(static_cast<int64_t>(bytes_));
  }
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  ~Layer() { octet_layer_free(layer_); }
  void enqueue(cudaStream_t stream) const {
    check(octet_layer_enqueue(layer_, &call_, workspace_, bytes_, stream));
  }

  octet_layer_info info = OCTET_LAYER_INFO_INIT;

 private:
  octet_layer* layer_ = nullptr;
  octet_call call_ = OCTET_CALL_INIT;
  size_t bytes_ = 0;
  char* workspace_ = nullptr;
};

// Arguments of the launch for a layer of that size; its weights are zeros.
ExpertsArgs launch_args(const octet_layer_info& info) {
  const int64_t slots = kTokens * info.top_k;
  layouts::ExpertWeights e;
  e.gate = e.up = {.rows = info.intermediate, .cols = info.hidden};
  e.down = {.rows = info.hidden, .cols = info.intermediate};
  ExpertsArgs all;
  ExpertsFront& f = all.front;
  cuda::ExpertGemmArgs& a = all.gemm;
  a.weights.sizes = layouts::stream_sizes(e);
  a.weights.data = on_device<uint8_t>(info.experts * a.weights.sizes.expert_bytes());
  a.weights.order = layouts::StreamOrder::kE4m3;
  a.weights.experts = info.experts;
  a.tokens = kTokens;
  a.top_k = info.top_k;
  a.hidden = info.hidden;
  a.intermediate = info.intermediate;
  a.activations = Activations::kMxfp8;
  a.workspace_bytes = experts_workspace(a).bytes;
  a.workspace = on_device<uint8_t>(a.workspace_bytes);
  a.slot_row = on_device<int32_t>(slots);
  f.permuted = on_device<int32_t>(slots);
  f.record = on_device<int32_t>(
      routing::record_words(routing::max_ctas(kTokens, info.top_k, info.experts)));
  a.permuted = f.permuted;
  a.record = f.record;
  f.x = on_device<Bf16>(kTokens * info.hidden);
  f.topk.tokens = kTokens;
  f.topk.experts = info.experts;
  f.topk.router.top_k = info.top_k;
  f.topk.logits = on_device<float>(kTokens * info.experts);
  f.topk.bias = on_device<float>(info.experts);
  f.topk.topk_ids = on_device<int32_t>(slots);
  f.topk.topk_weights = on_device<float>(slots);
  all.topk_weights = f.topk.topk_weights;
  all.y = on_device<Bf16>(kTokens * info.hidden);
  check(prepare_experts());
  return all;
}

struct Nothing {};
__global__ void empty(const __grid_constant__ Nothing) {}

int run(const char* path, const char* date) {
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0));
  const Layer layer(path);
  std::printf(
      "{\n  \"what\": \"host_time\", \"device\": \"%s\", \"date\": \"%s\", \"calls\": %d, "
      "\"rows\": %d,\n",
      device.name, date, kCalls, static_cast<int>(kTokens));
  std::printf("  \"experts\": %d, \"hidden\": %d, \"intermediate\": %d,\n  \"results\": [\n",
              static_cast<int>(layer.info.experts), static_cast<int>(layer.info.hidden),
              static_cast<int>(layer.info.intermediate));
  time_calls("octet_layer_enqueue", layer.info.kernel, true,
             [&](cudaStream_t s) { layer.enqueue(s); });
  time_calls("empty", "a kernel that does nothing", false,
             [](cudaStream_t s) { check(cuda::launch("empty", empty, dim3(1), 1, Nothing{}, s)); });
  time_calls("empty<<<>>>", "a kernel that does nothing", false,
             [](cudaStream_t s) { empty<<<1, 1, 0, s>>>(Nothing{}); });
  if (device.major == 9 && device.minor == 0) {
    const ExpertsArgs all = launch_args(layer.info);
    const int ctas = experts_ctas();
    time_calls("check_experts, launch_experts", "experts_mxfp8_mxfp4_sm90", false,
               [&](cudaStream_t s) {
                 check(check_experts(all));
                 check(launch_experts(all, ctas, s));
               });
  }
  std::printf("\n  ]\n}\n");
  return 0;
}

}  // namespace
}  // namespace octet::sm90

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "bench_host CHECKPOINT [DATE]\n");
    return 2;
  }
  return octet::sm90::run(argv[1], argc > 2 ? argv[2] : "");
}
