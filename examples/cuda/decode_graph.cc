// SPDX-License-Identifier: Apache-2.0
// A decode step of one MoE layer on a CUDA device, captured in a graph once and replayed.
//   decode_graph CHECKPOINT
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime_api.h>

#include "octet/octet.h"

namespace {

constexpr int64_t kTokens = 6;

void check(octet_status status) {
  if (status == OCTET_OK) return;
  std::fprintf(stderr, "%s\n", octet_last_error());
  std::exit(status == OCTET_UNSUPPORTED ? 77 : 1);  // 77: there is no device here
}
void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}
template <class T>
T* device_array(int64_t count) {
  void* p = nullptr;
  check(cudaMalloc(&p, static_cast<size_t>(count) * sizeof(T)));
  check(cudaMemset(p, 0, static_cast<size_t>(count) * sizeof(T)));
  return static_cast<T*>(p);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  octet_model* model = nullptr;
  octet_layer* layer = nullptr;
  octet_load_options options = OCTET_LOAD_OPTIONS_INIT;
  options.backend = "cuda";
  options.image_sentinel_lo = 0;
  check(octet_model_open(argv[1], &model));
  check(octet_layer_load(model, 0, &options, nullptr, &layer));
  octet_layer_info info = OCTET_LAYER_INFO_INIT;
  check(octet_layer_get_info(layer, &info));

  octet_call call = OCTET_CALL_INIT;  // every pointer is device memory
  call.tokens = kTokens;
  call.x = device_array<octet_bf16>(kTokens * info.hidden);
  call.logits = device_array<float>(kTokens * info.experts);
  call.y = device_array<octet_bf16>(kTokens * info.hidden);
  size_t bytes = 0;
  check(octet_layer_device_workspace_bytes(layer, kTokens, 0, &bytes));
  void* workspace = device_array<char>(static_cast<int64_t>(bytes));

  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t step = nullptr;
  check(cudaStreamCreate(&stream));
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  check(octet_layer_enqueue(layer, &call, workspace, bytes, stream));
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiate(&step, graph, 0));
  for (int i = 0; i < 3; ++i)
    check(cudaGraphLaunch(step, stream));  // x and logits written anew before each
  check(cudaStreamSynchronize(stream));
  std::printf("%lld rows, kernel %s\n", static_cast<long long>(kTokens), info.kernel);
  octet_layer_free(layer);
  octet_model_close(model);
  return 0;
}
