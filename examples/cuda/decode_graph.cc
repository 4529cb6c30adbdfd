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
  std::exit(1);
}
void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}
// Device memory with a copy of `host`, freed with the object.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& host) : bytes_(host.size() * sizeof(T)) {
    check(cudaMalloc(&data_, bytes_));
    check(cudaMemcpy(data_, host.data(), bytes_, cudaMemcpyHostToDevice));
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }
  T* get() const { return static_cast<T*>(data_); }
  std::vector<T> host() const {
    std::vector<T> copy(bytes_ / sizeof(T));
    check(cudaMemcpy(copy.data(), data_, bytes_, cudaMemcpyDeviceToHost));
    return copy;
  }

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  octet_model* model = nullptr;
  octet_layer* layer = nullptr;
  octet_load_options options = OCTET_LOAD_OPTIONS_INIT;
  options.backend = "cuda";
  options.image_sentinel_lo = 0;
  int64_t index = 0;
  check(octet_model_open(argv[1], &model));
  check(octet_model_layer_index(model, 0, &index));
  const octet_status loaded = octet_layer_load(model, index, &options, nullptr, &layer);
  if (loaded == OCTET_UNSUPPORTED) {
    std::fprintf(stderr, "%s\n", octet_last_error());
    return 77;  // there is no device here
  }
  check(loaded);
  octet_layer_info info = OCTET_LAYER_INFO_INIT;
  check(octet_layer_get_info(layer, &info));

  // The step's rows: ones and minus ones, and a favourite expert each.
  std::vector<octet_bf16> x(static_cast<size_t>(kTokens * info.hidden));
  for (size_t i = 0; i < x.size(); ++i) x[i] = i % 3 == 0 ? 0xBF80 : 0x3F80;
  std::vector<float> logits(static_cast<size_t>(kTokens * info.experts));
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i * 7 % 11);
  {
    const DeviceArray<octet_bf16> device_x(x), y(std::vector<octet_bf16>(x.size()));
    const DeviceArray<float> device_logits(logits);
    octet_call call = OCTET_CALL_INIT;  // every pointer is device memory
    call.tokens = kTokens;
    call.x = device_x.get();
    call.logits = device_logits.get();
    call.y = y.get();
    size_t bytes = 0;
    check(octet_layer_device_workspace_bytes(layer, kTokens, 0, &bytes));
    const DeviceArray<char> workspace{std::vector<char>(bytes)};

    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t step = nullptr;
    check(cudaStreamCreate(&stream));
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    check(octet_layer_enqueue(layer, &call, workspace.get(), bytes, stream));
    check(cudaStreamEndCapture(stream, &graph));
    check(cudaGraphInstantiate(&step, graph, 0));
    for (int i = 0; i < 3; ++i)
      check(cudaGraphLaunch(step, stream));  // x and logits written anew before each
    check(cudaStreamSynchronize(stream));
    int64_t zeros = 0;
    for (const octet_bf16 v : y.host()) zeros += v << 1 == 0 ? 1 : 0;
    std::printf("%lld rows, kernel %s, %lld of %zu outputs are 0\n",
                static_cast<long long>(kTokens), info.kernel, static_cast<long long>(zeros),
                x.size());
    check(cudaGraphExecDestroy(step));
    check(cudaGraphDestroy(graph));
    check(cudaStreamDestroy(stream));
    if (zeros == static_cast<int64_t>(x.size())) return 1;
  }
  octet_layer_free(layer);
  octet_model_close(model);
  return 0;
}
