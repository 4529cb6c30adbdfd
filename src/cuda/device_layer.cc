// SPDX-License-Identifier: Apache-2.0
#include "cuda/device_layer.h"

#include <initializer_list>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#include "cuda/device_experts.h"
#include "cuda/device_weights.h"
#include "cuda/front.h"

namespace octet::cuda {
namespace {

class LoadedLayer final : public DeviceLayer {
 public:
  LoadedLayer(int device, const DeviceExperts& experts, LayerOnDevice layer, DeviceWeights weights,
              DeviceMemory gate)
      : device_(device),
        experts_(experts),
        layer_(layer),
        weights_(std::move(weights)),
        gate_(std::move(gate)) {}

  int64_t device_bytes() const override {
    return weights_.codes.bytes() + weights_.parameters.bytes() + gate_.bytes();
  }
  int64_t workspace_bytes(int64_t tokens, int64_t top_k) const override {
    return experts_.workspace_bytes(layer_, tokens, top_k);
  }
  Status enqueue(const DeviceCall& call, void* workspace, int64_t workspace_bytes,
                 void* stream) const override;
  Status run(const DeviceCall& call) const override;
  Status check(const DeviceCall& call) const override;

 private:
  int device_;  // where the weights are
  const DeviceExperts& experts_;
  LayerOnDevice layer_;
  DeviceWeights weights_;  // what layer_ points into
  DeviceMemory gate_;
};

// Every pointer of a call on the device: whole loads of 16 bytes, or elements.
Status check_aligned(const DeviceCall& c) {
  struct Pointer {
    const char* name;
    const void* at;
    uintptr_t want;
  };
  constexpr uintptr_t kLoad = 16, kWord = 4;
  for (const auto& [name, at, want] : std::initializer_list<Pointer>{
           {"x", c.x, kLoad},
           {"shared", c.shared, kLoad},
           {"y", c.y, kLoad},
           {"rows", c.rows, kLoad},
           {"x_quant", c.x_quant, kLoad},
           {"topk_ids", c.ids.data, c.ids.is_i64 ? sizeof(int64_t) : kWord},
           {"topk_weights", c.weights, kWord},
           {"logits", c.logits, kWord},
           {"input_ids", c.input_ids.data, c.input_ids.is_i64 ? sizeof(int64_t) : kWord},
           {"topk_ids_out", c.topk_ids, kWord},
           {"topk_weights_out", c.topk_weights, kWord},
           {"permuted", c.permuted, kWord},
           {"h", c.h, sizeof(Bf16)}}) {
    OCTET_RETURN_IF_ERROR(check_multiple(name, at, want));
  }
  return {};
}

// Everything that every kernel's launch would refuse but for alignment, before the first one.
Status check_tensors(const DeviceCall& call, const LayerSpec& spec) {
  if (call.tokens < 0 || call.top_k < 1) {
    return invalid_argument("tokens " + std::to_string(call.tokens) + ", top_k " +
                            std::to_string(call.top_k) + ", want 0 or more, 1 or more");
  }
  if (call.tokens == 0) return {};
  if (call.tokens > kMostIds / call.top_k) {
    return unsupported("tokens " + std::to_string(call.tokens) + " of " +
                       std::to_string(call.top_k) + " ids, want at most " +
                       std::to_string(kMostIds) + " ids");
  }
  if (call.x == nullptr) return invalid_argument("x: missing");
  if (call.y == nullptr && call.rows == nullptr)
    return invalid_argument("y: missing, want y or rows");
  if (call.ids.data != nullptr) {
    return call.weights != nullptr || call.y == nullptr
               ? Status{}
               : invalid_argument("topk_weights: missing, want F32 [T, k] with topk_ids");
  }
  if (call.logits == nullptr || call.weights != nullptr)
    return invalid_argument("topk_ids: missing, want ids with weights, or logits, on a device");
  if (spec.router.kind != RouterKind::kDsv4) {
    return unsupported("router " + std::string(name_of(spec.router.kind)) +
                       " from logits on a CUDA device, want dsv4, or ids and weights");
  }
  if (call.top_k != spec.router.top_k) {
    return invalid_argument("top_k " + std::to_string(call.top_k) + " with logits, want " +
                            std::to_string(spec.router.top_k));
  }
  return {};
}

Status LoadedLayer::check(const DeviceCall& call) const {
  OCTET_RETURN_IF_ERROR(check_tensors(call, layer_.spec));
  return call.tokens == 0 ? Status{} : experts_.check(layer_, call);
}

Status LoadedLayer::enqueue(const DeviceCall& call, void* workspace, int64_t workspace_bytes,
                            void* stream) const {
  OCTET_RETURN_IF_ERROR(check(call));
  if (call.tokens == 0) return {};
  OCTET_RETURN_IF_ERROR(check_aligned(call));
  int device = 0;
  OCTET_RETURN_IF_ERROR(device_status("current device", cudaGetDevice(&device)));
  if (device != device_) {
    return invalid_argument("current device " + std::to_string(device) + ", want " +
                            std::to_string(device_) + ", where the layer is");
  }
  const int64_t wanted = this->workspace_bytes(call.tokens, call.top_k);
  if (workspace == nullptr || workspace_bytes < wanted ||
      reinterpret_cast<uintptr_t>(workspace) % kWorkspaceAlignment != 0) {
    return invalid_argument("workspace of " + std::to_string(workspace_bytes) +
                            " bytes of device memory, want " + std::to_string(wanted) +
                            " at a multiple of " + std::to_string(kWorkspaceAlignment));
  }
  return experts_.enqueue(layer_, call, static_cast<std::byte*>(workspace), stream);
}

// A call's tensors in device memory: pointers of `host` and of the same call there, filled and read back.
class Mirror {
 public:
  explicit Mirror(std::byte* base) : carver_(base) {}
  // Copied in.
  template <class T>
  const T* in(const T* host, int64_t count) {
    if (host == nullptr) return nullptr;
    T* const to = carver_.take<T>(count);
    copy(to, host, count * static_cast<int64_t>(sizeof(T)), cudaMemcpyHostToDevice);
    return to;
  }
  // Copied in too, because rows that no slot names keep what they have, and out by copy_out().
  template <class T>
  T* out(T* host, int64_t count) {
    T* const to = const_cast<T*>(in(host, count));
    if (to != nullptr) outs_.push_back({host, to, count * static_cast<int64_t>(sizeof(T))});
    return to;
  }
  std::byte* take(int64_t bytes) { return carver_.take<std::byte>(bytes); }
  int64_t bytes() const { return carver_.bytes(); }
  void copy_out() {
    for (const Out& o : outs_) copy(o.host, o.device, o.bytes, cudaMemcpyDeviceToHost);
  }
  cudaError_t error() const { return error_; }

 private:
  struct Out {
    void* host;
    const void* device;
    int64_t bytes;
  };
  void copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind) {
    if (to == nullptr || from == nullptr || error_ != cudaSuccess) return;
    error_ = cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, cudaStreamPerThread);
  }
  DeviceCarver carver_;
  std::vector<Out> outs_;
  cudaError_t error_ = cudaSuccess;
};

// Makes a device the current one, and the one before again.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    error_ = cudaGetDevice(&before_);
    if (error_ == cudaSuccess) error_ = cudaSetDevice(device);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice() { cudaSetDevice(before_); }
  cudaError_t error() const { return error_; }

 private:
  int before_ = 0;
  cudaError_t error_;
};

DeviceCall mirrored(const DeviceCall& c, const LayerSpec& spec, Mirror& m) {
  const int64_t slots = c.tokens * c.top_k, elems = c.tokens * spec.hidden;
  DeviceCall d{.tokens = c.tokens, .top_k = c.top_k};
  const auto ids = [&](const TokenIds& of, int64_t count) {
    const int64_t bytes = count * (of.is_i64 ? 8 : 4);
    return TokenIds{m.in(static_cast<const std::byte*>(of.data), bytes), of.is_i64};
  };
  d.x = m.in(c.x, elems);
  d.ids = ids(c.ids, slots);
  d.weights = m.in(c.weights, slots);
  d.logits = m.in(c.logits, c.tokens * spec.experts);
  d.input_ids = ids(c.input_ids, c.tokens);
  d.shared = m.in(c.shared, elems);
  d.y = m.out(c.y, elems);
  if (c.ids.data == nullptr) {  // else they are what was given
    d.topk_ids = m.out(c.topk_ids, slots);
    d.topk_weights = m.out(c.topk_weights, slots);
  }
  d.rows = m.out(c.rows, slots * spec.hidden);
  d.permuted = m.out(c.permuted, slots);
  d.x_quant = m.out(c.x_quant, elems);
  d.x_scale = m.out(c.x_scale, elems / kMxBlock);
  d.h_values = m.out(c.h_values, slots * spec.intermediate);
  d.h_scales = m.out(c.h_scales, slots * ceil_div(spec.intermediate, kMxBlock));
  d.h = m.out(c.h, slots * spec.intermediate);
  return d;
}

Status LoadedLayer::run(const DeviceCall& call) const {
  OCTET_RETURN_IF_ERROR(check(call));
  if (call.tokens == 0) return {};
  const CurrentDevice current(device_);
  OCTET_RETURN_IF_ERROR(device_status("current device", current.error()));
  const int64_t scratch = workspace_bytes(call.tokens, call.top_k);
  Mirror sizes(nullptr);
  static_cast<void>(mirrored(call, layer_.spec, sizes));
  OCTET_ASSIGN_OR_RETURN(const DeviceMemory memory,
                         DeviceMemory::allocate(sizes.bytes() + scratch));
  Mirror mirror(memory.as());
  const DeviceCall on_device = mirrored(call, layer_.spec, mirror);
  OCTET_RETURN_IF_ERROR(device_status("inputs", mirror.error()));
  OCTET_RETURN_IF_ERROR(enqueue(on_device, mirror.take(scratch), scratch, cudaStreamPerThread));
  mirror.copy_out();
  OCTET_RETURN_IF_ERROR(device_status("outputs", mirror.error()));
  return device_status("experts", cudaStreamSynchronize(cudaStreamPerThread));
}

}  // namespace

Result<std::unique_ptr<const DeviceLayer>> DeviceLayer::load(
    const checkpoint::LayerTensors& tensors, const DeviceExperts& experts, Executor& executor,
    const Progress& progress) {
  int device = 0;
  OCTET_RETURN_IF_ERROR(device_status("current device", cudaGetDevice(&device)));
  OCTET_ASSIGN_OR_RETURN(
      DeviceWeights weights,
      load_weights(tensors, experts.order(tensors.spec.activations), executor, progress));
  OCTET_RETURN_IF_ERROR(experts.prepare(weights.view));
  LayerOnDevice layer{.spec = tensors.spec, .weights = weights.view};
  const TensorView &bias = tensors.gate.bias, &bias_vl = tensors.gate.bias_vl;
  const bool has_images = bias_vl.data != nullptr && layer.spec.router.image_sentinel_lo > 0;
  const int64_t bytes = layer.spec.experts * static_cast<int64_t>(sizeof(float));
  const int64_t stride = round_up(bytes, kWorkspaceAlignment);
  OCTET_ASSIGN_OR_RETURN(DeviceMemory gate, DeviceMemory::allocate(2 * stride));
  const auto copy_gate = [&](const TensorView& from, int64_t at, const float*& to) {
    to = gate.as<float>(at);
    return device_status("gate", cudaMemcpy(gate.as(at), from.data, static_cast<size_t>(bytes),
                                            cudaMemcpyHostToDevice));
  };
  if (bias.data != nullptr) OCTET_RETURN_IF_ERROR(copy_gate(bias, 0, layer.bias));
  if (has_images) OCTET_RETURN_IF_ERROR(copy_gate(bias_vl, stride, layer.bias_vl));
  return std::unique_ptr<const DeviceLayer>(
      std::make_unique<LoadedLayer>(device, experts, layer, std::move(weights), std::move(gate)));
}

}  // namespace octet::cuda
