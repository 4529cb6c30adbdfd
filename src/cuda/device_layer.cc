// SPDX-License-Identifier: Apache-2.0
#include "cuda/device_layer.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#include "core/carver.h"
#include "cuda/device_weights.h"
#include "cuda/expert_gemm_bf16.h"
#include "cuda/finalize_bf16.h"
#include "cuda/front.h"
#include "routing/record.h"

namespace octet::cuda {
namespace {

constexpr int64_t kAlignment = 256;

using DeviceCarver = Carver<kAlignment>;

// Each is used where the caller does not want the result itself.
struct Pieces {
  int32_t* topk_ids;           // [T, k]
  float* topk_weights;         // [T, k]
  int32_t* padded;             // [T, k], route's `permuted`
  int32_t* record;             // [record_words]
  int32_t* permuted;           // [T, k], rows in the order of slots
  uint8_t *x_quant, *x_scale;  // [T, H], [T, H/32]
  Bf16* rows;                  // [T k, H]
  std::byte* gemm;             // h
  int64_t gemm_bytes, bytes;   // of h, of all
};

class LoadedLayer final : public DeviceLayer {
 public:
  LoadedLayer(int device, const LayerSpec& spec, DeviceWeights weights, DeviceMemory gate,
              bool has_bias, bool has_bias_vl)
      : device_(device), spec_(spec), weights_(std::move(weights)), gate_(std::move(gate)) {
    const int64_t stride = round_up(spec.experts * 4, kAlignment);
    if (has_bias) bias_ = gate_.as<float>();
    if (has_bias_vl) bias_vl_ = gate_.as<float>(stride);
  }

  int64_t device_bytes() const override {
    return weights_.codes.bytes() + weights_.parameters.bytes() + gate_.bytes();
  }
  int64_t workspace_bytes(int64_t tokens, int64_t top_k) const override {
    return pieces(tokens, top_k, nullptr).bytes;
  }
  Status enqueue(const DeviceCall& call, void* workspace, int64_t workspace_bytes,
                 void* stream) const override;
  Status run(const DeviceCall& call) const override;
  Status check(const DeviceCall& call) const override;

 private:
  bool is_mxfp8() const { return spec_.activations == Activations::kMxfp8; }
  Pieces pieces(int64_t tokens, int64_t top_k, std::byte* base) const;
  Status enqueue_routing(const DeviceCall& call, Pieces& p, cudaStream_t stream) const;

  int device_;  // where the weights are
  LayerSpec spec_;
  DeviceWeights weights_;
  DeviceMemory gate_;
  const float *bias_ = nullptr, *bias_vl_ = nullptr;
};

Pieces LoadedLayer::pieces(int64_t tokens, int64_t top_k, std::byte* base) const {
  DeviceCarver c(base);
  const int64_t slots = tokens * top_k;
  const int64_t ctas = routing::max_ctas(tokens, top_k, spec_.local_experts);
  Pieces p{};
  p.topk_ids = c.take<int32_t>(slots);
  p.topk_weights = c.take<float>(slots);
  p.padded = c.take<int32_t>(slots);
  p.record = c.take<int32_t>(routing::record_words(ctas));
  p.permuted = c.take<int32_t>(slots);
  if (is_mxfp8()) {
    p.x_quant = c.take<uint8_t>(tokens * spec_.hidden);
    p.x_scale = c.take<uint8_t>(tokens * spec_.hidden / kMxBlock);
  }
  p.rows = c.take<Bf16>(slots * spec_.hidden);
  p.gemm_bytes = expert_gemm_bf16_workspace_bytes(weights_.view.sizes, spec_.local_experts, tokens,
                                                  top_k, spec_.intermediate, spec_.activations);
  p.gemm = c.take<std::byte>(p.gemm_bytes);
  p.bytes = c.bytes();
  return p;
}

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
    const uintptr_t off = reinterpret_cast<uintptr_t>(at) % want;
    if (off != 0) {
      return invalid_argument(std::string(name) + ": " + std::to_string(off) +
                              " bytes after a multiple of " + std::to_string(want) +
                              ", want a multiple");
    }
  }
  return {};
}

// Everything that a kernel's launch would refuse but for alignment, before the first one.
Status LoadedLayer::check(const DeviceCall& call) const {
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
  if (spec_.router.kind != RouterKind::kDsv4) {
    return unsupported("router " + std::string(name_of(spec_.router.kind)) +
                       " from logits on a CUDA device, want dsv4, or ids and weights");
  }
  if (call.top_k != spec_.router.top_k) {
    return invalid_argument("top_k " + std::to_string(call.top_k) + " with logits, want " +
                            std::to_string(spec_.router.top_k));
  }
  return {};
}

// Ids, weights, quantised x and the record; what the caller wants itself takes the place of a piece.
Status LoadedLayer::enqueue_routing(const DeviceCall& call, Pieces& p, cudaStream_t stream) const {
  if (call.x_quant != nullptr) p.x_quant = call.x_quant;
  if (call.x_scale != nullptr) p.x_scale = call.x_scale;
  const QuantizeArgs quantize{.x = call.x,
                              .tokens = call.tokens,
                              .width = spec_.hidden,
                              .layout = ScaleLayout::kLinear,
                              .x_quant = p.x_quant,
                              .x_scale = p.x_scale};
  TokenIds ids = call.ids;
  if (ids.data == nullptr) {
    if (call.topk_ids != nullptr) p.topk_ids = call.topk_ids;
    if (call.topk_weights != nullptr) p.topk_weights = call.topk_weights;
    ids = {p.topk_ids, false};
    const TopkArgs topk{.logits = call.logits,
                        .tokens = call.tokens,
                        .experts = spec_.experts,
                        .router = spec_.router,
                        .bias = bias_,
                        .bias_vl = bias_vl_,
                        .input_ids = call.input_ids,
                        .topk_ids = p.topk_ids,
                        .topk_weights = p.topk_weights};
    const bool is_whole = spec_.local_experts == spec_.experts;
    if (is_whole && call.tokens <= kFrontMaxTokens) {
      QuantizeArgs front = quantize;
      if (!is_mxfp8()) front.tokens = 0;
      return launch_front(
          {.quantize = front, .topk = topk, .permuted = p.padded, .record = p.record}, stream);
    }
    OCTET_RETURN_IF_ERROR(launch_topk(topk, stream));
  }
  if (is_mxfp8()) OCTET_RETURN_IF_ERROR(launch_mxfp8_quantize(quantize, stream));
  return launch_route({.topk_ids = ids,
                       .tokens = call.tokens,
                       .top_k = call.top_k,
                       .experts = spec_.local_experts,
                       .permuted = p.padded,
                       .record = p.record,
                       .first_expert = spec_.first_expert},
                      stream);
}

Status LoadedLayer::enqueue(const DeviceCall& call, void* workspace, int64_t workspace_bytes,
                            void* stream_of_call) const {
  OCTET_RETURN_IF_ERROR(check(call));
  if (call.tokens == 0) return {};
  OCTET_RETURN_IF_ERROR(check_aligned(call));
  int device = 0;
  OCTET_RETURN_IF_ERROR(device_status("current device", cudaGetDevice(&device)));
  if (device != device_) {
    return invalid_argument("current device " + std::to_string(device) + ", want " +
                            std::to_string(device_) + ", where the layer is");
  }
  const auto stream = static_cast<cudaStream_t>(stream_of_call);
  Pieces p = pieces(call.tokens, call.top_k, static_cast<std::byte*>(workspace));
  if (workspace == nullptr || workspace_bytes < p.bytes ||
      reinterpret_cast<uintptr_t>(workspace) % kAlignment != 0) {
    return invalid_argument("workspace of " + std::to_string(workspace_bytes) +
                            " bytes of device memory, want " + std::to_string(p.bytes) +
                            " at a multiple of " + std::to_string(kAlignment));
  }
  OCTET_RETURN_IF_ERROR(enqueue_routing(call, p, stream));
  if (call.rows != nullptr) p.rows = call.rows;
  if (call.permuted != nullptr) p.permuted = call.permuted;
  const ExpertGemmArgs gemm{.weights = weights_.view,
                            .tokens = call.tokens,
                            .top_k = call.top_k,
                            .hidden = spec_.hidden,
                            .intermediate = spec_.intermediate,
                            .activations = spec_.activations,
                            .alpha = spec_.swiglu.alpha,
                            .beta = spec_.swiglu.beta,
                            .x = call.x,
                            .x_quant = p.x_quant,
                            .x_scale = p.x_scale,
                            .record = p.record,
                            .permuted = p.padded,
                            .workspace = p.gemm,
                            .workspace_bytes = p.gemm_bytes,
                            .rows = p.rows,
                            .slot_row = p.permuted};
  OCTET_RETURN_IF_ERROR(launch_expert_gemm_bf16(
      gemm, {.h_values = call.h_values, .h_scales = call.h_scales, .h = call.h}, stream));
  if (call.y == nullptr) return {};
  return launch_finalize_bf16(
      {.rows = p.rows,
       .topk_weights = call.ids.data != nullptr ? call.weights : p.topk_weights,
       .permuted = p.permuted,
       .shared = call.shared,
       .scale = 1.0F,  // the router's is in the weights
       .tokens = call.tokens,
       .top_k = call.top_k,
       .hidden = spec_.hidden,
       .y = call.y},
      stream);
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
  static_cast<void>(mirrored(call, spec_, sizes));
  OCTET_ASSIGN_OR_RETURN(const DeviceMemory memory,
                         DeviceMemory::allocate(sizes.bytes() + scratch));
  Mirror mirror(memory.as());
  const DeviceCall on_device = mirrored(call, spec_, mirror);
  OCTET_RETURN_IF_ERROR(device_status("inputs", mirror.error()));
  OCTET_RETURN_IF_ERROR(enqueue(on_device, mirror.take(scratch), scratch, cudaStreamPerThread));
  mirror.copy_out();
  OCTET_RETURN_IF_ERROR(device_status("outputs", mirror.error()));
  return device_status("experts", cudaStreamSynchronize(cudaStreamPerThread));
}

}  // namespace

Result<std::unique_ptr<const DeviceLayer>> DeviceLayer::load(
    const checkpoint::LayerTensors& tensors, Executor& executor, const Progress& progress) {
  if (std::string why = sm80_refusal(); !why.empty()) return unsupported(std::move(why));
  int device = 0;
  OCTET_RETURN_IF_ERROR(device_status("current device", cudaGetDevice(&device)));
  OCTET_ASSIGN_OR_RETURN(DeviceWeights weights,
                         load_weights(tensors, layouts::StreamOrder::kBf16, executor, progress));
  OCTET_RETURN_IF_ERROR(prepare_expert_gemm_bf16(weights.view));
  const LayerSpec& spec = tensors.spec;
  const TensorView &bias = tensors.gate.bias, &bias_vl = tensors.gate.bias_vl;
  const int64_t stride = round_up(spec.experts * 4, kAlignment);
  const bool has_images = bias_vl.data != nullptr && spec.router.image_sentinel_lo > 0;
  OCTET_ASSIGN_OR_RETURN(DeviceMemory gate, DeviceMemory::allocate(2 * stride));
  for (const auto& [from, at] : {std::pair{&bias, int64_t{0}}, {&bias_vl, stride}}) {
    if (from->data == nullptr) continue;
    OCTET_RETURN_IF_ERROR(device_status(
        "gate", cudaMemcpy(gate.as(at), from->data, static_cast<size_t>(spec.experts * 4),
                           cudaMemcpyHostToDevice)));
  }
  return std::unique_ptr<const DeviceLayer>(std::make_unique<LoadedLayer>(
      device, spec, std::move(weights), std::move(gate), bias.data != nullptr, has_images));
}

}  // namespace octet::cuda
