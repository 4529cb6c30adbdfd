// SPDX-License-Identifier: Apache-2.0
// expert_gemm_bf16 as the kernels of a layer: front or its parts, the GEMM pair, finalize; any T at once.
#include "cuda/device_experts.h"
#include "cuda/device_routing.h"
#include "cuda/expert_gemm_bf16.h"

namespace octet::cuda {
namespace {

class Sm80Experts final : public DeviceExperts {
 public:
  layouts::StreamOrder order(Activations) const override { return layouts::StreamOrder::kBf16; }
  std::string refusal(const LayerSpec&, int64_t) const override { return {}; }
  Status prepare(const StreamWeights& weights) const override {
    return prepare_expert_gemm_bf16(weights);
  }
  Status check(const LayerOnDevice&, const DeviceCall&) const override { return {}; }
  int64_t workspace_bytes(const LayerOnDevice& layer, int64_t tokens,
                          int64_t top_k) const override {
    return pieces(layer, tokens, top_k, nullptr).bytes;
  }
  Status enqueue(const LayerOnDevice& layer, const DeviceCall& call, std::byte* workspace,
                 void* stream) const override;

 private:
  struct Pieces {
    RoutingPieces routing;
    int32_t* slot_row;          // [T, k]
    Bf16* rows;                 // [T k, H]
    std::byte* gemm;            // h
    int64_t gemm_bytes, bytes;  // of h, of all
  };
  static Pieces pieces(const LayerOnDevice& layer, int64_t tokens, int64_t top_k, std::byte* base);
};

Sm80Experts::Pieces Sm80Experts::pieces(const LayerOnDevice& layer, int64_t tokens, int64_t top_k,
                                        std::byte* base) {
  const LayerSpec& s = layer.spec;
  DeviceCarver c(base);
  Pieces p{};
  p.routing = routing_pieces(layer, tokens, top_k, c);
  p.slot_row = c.take<int32_t>(tokens * top_k);
  p.rows = c.take<Bf16>(tokens * top_k * s.hidden);
  p.gemm_bytes = expert_gemm_bf16_workspace_bytes(layer.weights.sizes, s.local_experts, tokens,
                                                  top_k, s.intermediate, s.activations);
  p.gemm = c.take<std::byte>(p.gemm_bytes);
  p.bytes = c.bytes();
  return p;
}

Status Sm80Experts::enqueue(const LayerOnDevice& layer, const DeviceCall& call,
                            std::byte* workspace, void* stream_of_call) const {
  const auto stream = static_cast<cudaStream_t>(stream_of_call);
  Pieces p = pieces(layer, call.tokens, call.top_k, workspace);
  p.routing = with_outputs(p.routing, call);
  OCTET_RETURN_IF_ERROR(enqueue_routing(layer, call, p.routing, stream));
  if (call.rows != nullptr) p.rows = call.rows;
  if (call.permuted != nullptr) p.slot_row = call.permuted;
  const ExpertGemmArgs gemm{.weights = layer.weights,
                            .tokens = call.tokens,
                            .top_k = call.top_k,
                            .hidden = layer.spec.hidden,
                            .intermediate = layer.spec.intermediate,
                            .activations = layer.spec.activations,
                            .alpha = layer.spec.swiglu.alpha,
                            .beta = layer.spec.swiglu.beta,
                            .x = call.x,
                            .x_quant = p.routing.x_quant,
                            .x_scale = p.routing.x_scale,
                            .record = p.routing.record,
                            .permuted = p.routing.padded,
                            .workspace = p.gemm,
                            .workspace_bytes = p.gemm_bytes,
                            .rows = p.rows,
                            .slot_row = p.slot_row};
  OCTET_RETURN_IF_ERROR(launch_expert_gemm_bf16(
      gemm, {.h_values = call.h_values, .h_scales = call.h_scales, .h = call.h}, stream));
  if (call.y == nullptr) return {};
  return enqueue_finalize(layer, call, p.routing, p.rows, p.slot_row, stream);
}

}  // namespace

const DeviceExperts* sm80_experts() {
  static const Sm80Experts kExperts;
  return &kExperts;
}

}  // namespace octet::cuda
