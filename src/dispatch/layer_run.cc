// SPDX-License-Identifier: Apache-2.0
// One call of a layer: every check first, then router, experts, finalize. With a CUDA kernel the router runs here, what comes after
// it on the device.
#include <algorithm>
#include <fmt/format.h>
#include <limits>

#include "cpu/ops.h"
#include "dispatch/gate.h"
#include "dispatch/layer_data.h"
#include "formats/bf16.h"
#include "reference/layer.h"
#include "reference/reference.h"
#include "reference/routing.h"
#include "routing/topk.h"

namespace octet::dispatch {
namespace {

constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();
constexpr int64_t kWorkspaceAlignment = 64;

// The workspace's pieces; each is used where the caller does not want the result itself.
struct Pieces {
  float* logits;        // [T, E]
  int32_t* ids;         // [T, k]
  float* weights;       // [T, k]
  int32_t* permuted;    // [T, k]
  Bf16* rows;           // [T k, H]
  std::byte* experts;   // cpu::experts_workspace_bytes
  int64_t total_bytes;  // of all
};

Pieces pieces_of(const LayerData& layer, int64_t tokens, int64_t top_k, int num_threads,
                 std::byte* base) {
  int64_t at = 0;
  const auto take = [&](int64_t bytes) {
    std::byte* piece = base == nullptr ? nullptr : base + at;
    at += round_up(bytes, kWorkspaceAlignment);
    return piece;
  };
  const int64_t slots = tokens * top_k;
  Pieces p{};
  p.logits = reinterpret_cast<float*>(take(tokens * layer.spec.experts * 4));
  p.ids = reinterpret_cast<int32_t*>(take(slots * 4));
  p.weights = reinterpret_cast<float*>(take(slots * 4));
  if (layer.source != nullptr) {
    p.permuted = reinterpret_cast<int32_t*>(take(slots * 4));
    p.rows = reinterpret_cast<Bf16*>(take(slots * layer.spec.hidden * 2));
    p.experts =
        take(cpu::experts_workspace_bytes(layer.spec, *layer.source, tokens, top_k, num_threads));
  }
  p.total_bytes = at;
  return p;
}

bool has_ids(const LayerCall& call) { return call.given_ids.data != nullptr; }

int64_t top_k_of(const LayerData& layer, const LayerCall& call) {
  return has_ids(call) && call.given_top_k != 0 ? call.given_top_k : layer.spec.router.top_k;
}

template <class T>
const T* data_of(const TensorView& t) {
  return t.data == nullptr ? nullptr : t.as<T>();
}

TopkArgs topk_args(const LayerData& layer, const LayerCall& call) {
  const checkpoint::Gate& g = layer.gate;
  const bool has_images = layer.spec.router.image_sentinel_lo > 0;
  return {.logits = call.logits,
          .tokens = call.tokens,
          .experts = layer.spec.experts,
          .router = layer.spec.router,
          .bias = data_of<float>(g.bias),
          .bias_vl = has_images ? data_of<float>(g.bias_vl) : nullptr,
          .input_ids = call.input_ids,
          .table = data_of<int32_t>(g.table),
          .vocab = g.table.data == nullptr ? 0 : g.table.dim(0),
          .topk_ids = call.topk_ids,
          .topk_weights = call.topk_weights};
}

// ---- checks

Status check_routing(const LayerData& layer, const LayerCall& call) {
  if (has_ids(call)) {
    if (call.given_weights == nullptr) {
      return invalid_argument("topk_weights: missing, want F32 [T, k] with topk_ids");
    }
    if (call.logits_out != nullptr) {
      return invalid_argument("logits_out: an output that given topk_ids do not make");
    }
    return {};
  }
  if (call.given_weights != nullptr) {
    return invalid_argument("topk_ids: missing, want I32 or I64 [T, k] with topk_weights");
  }
  const int64_t top_k = layer.spec.router.top_k;
  if (call.given_top_k != 0 && call.given_top_k != top_k) {
    return invalid_argument(fmt::format("top_k {} without topk_ids, want the layer's {}, or 0",
                                        call.given_top_k, top_k));
  }
  if (call.logits == nullptr && layer.gate.weight.data == nullptr) {
    return invalid_argument(
        "logits: missing, the layer has no gate; want logits, or topk_ids with topk_weights");
  }
  return routing::check_topk(topk_args(layer, call));
}

Status check_outputs(const LayerData& layer, const LayerCall& call) {
  const cpu::ExpertsTrace& trace = call.trace;
  if (call.tokens > 0 && call.y == nullptr && call.rows == nullptr) {
    return invalid_argument("y: missing, want y or rows");
  }
  if (call.rows != nullptr && call.permuted == nullptr) {
    return invalid_argument("permuted: missing, want I32 [T, k] with rows");
  }
  const bool wants_mxfp8 = trace.x_quant || trace.x_scale || trace.h_values || trace.h_scales;
  if (layer.is_reference() && (call.rows || call.permuted || wants_mxfp8 || trace.h)) {
    return unsupported(
        fmt::format("{} has y only, no rows and no intermediates", layer.selection.kernel->name));
  }
  if (wants_mxfp8 && layer.spec.activations != Activations::kMxfp8) {
    return invalid_argument("x_quant, h_values: an output of mxfp8 layers, this one has bf16");
  }
  if (trace.h != nullptr && layer.spec.activations != Activations::kBf16) {
    return invalid_argument("h: an output of bf16 layers, this one has mxfp8");
  }
  return {};
}

Status check_call(const LayerData& layer, const LayerCall& call) {
  const int64_t top_k = top_k_of(layer, call);
  if (call.tokens < 0)
    return invalid_argument(fmt::format("tokens {}, want 0 or more", call.tokens));
  if (top_k < 1 || top_k > kInt32Max) {
    return invalid_argument(fmt::format("top_k {}, want 1 or more", top_k));
  }
  if (call.tokens > kInt32Max / top_k) {
    return invalid_argument(fmt::format("tokens {}: {} of {} slots, want at most {} slots",
                                        call.tokens, call.tokens, top_k, kInt32Max));
  }
  if (call.tokens > 0 && call.x == nullptr) return invalid_argument("x: missing");
  if (call.tokens > 0) OCTET_RETURN_IF_ERROR(check_routing(layer, call));
  return check_outputs(layer, call);
}

Status check_workspace(const std::byte* workspace, int64_t bytes, int64_t wanted) {
  if (bytes < wanted) {
    return invalid_argument(fmt::format("workspace {} bytes, want {}", bytes, wanted));
  }
  if (wanted > 0 && workspace == nullptr) return invalid_argument("workspace: missing");
  const uintptr_t off = reinterpret_cast<uintptr_t>(workspace) % kWorkspaceAlignment;
  if (off == 0) return {};
  return invalid_argument(
      fmt::format("workspace: address is {} past a multiple of {}", off, kWorkspaceAlignment));
}

// ---- steps

// Ids that no expert can have, in whatever width, become -1: they must not alias one in int32.
void copy_given(const LayerCall& call, int64_t slots, const Pieces& p) {
  constexpr int64_t kInt32Min = std::numeric_limits<int32_t>::min();
  for (int64_t i = 0; i < slots; ++i) {
    const int64_t id = call.given_ids[i];
    p.ids[i] = id < kInt32Min || id > kInt32Max ? -1 : static_cast<int32_t>(id);
  }
  std::copy_n(call.given_weights, slots, p.weights);
}

GateArgs gate_args(const LayerData& layer, const LayerCall& call) {
  return {.x = call.x,
          .weight = layer.gate.weight,
          .logit_bias = layer.gate.logit_bias,
          .tokens = call.tokens,
          .hidden = layer.spec.hidden,
          .experts = layer.spec.experts,
          .round_to_bf16 = layer.spec.router.kind == RouterKind::kFlint};
}

void run_reference_gate(const GateArgs& args, float* logits) {
  const std::vector<reference::Span> made = reference::gate_logits(args);
  std::transform(made.begin(), made.end(), logits,
                 [](const reference::Span& s) { return static_cast<float>(s.value); });
}

void route(const LayerData& layer, const LayerCall& call, const Pieces& p, Executor& executor) {
  const int64_t num_logits = call.tokens * layer.spec.experts;
  TopkArgs args = topk_args(layer, call);
  if (call.logits == nullptr) {
    const GateArgs gate = gate_args(layer, call);
    layer.is_reference() ? run_reference_gate(gate, p.logits)
                         : gate_logits(gate, p.logits, executor);
    args.logits = p.logits;
  } else if (call.logits_out != nullptr && call.logits_out != call.logits) {
    std::copy_n(call.logits, num_logits, call.logits_out);
  }
  args.topk_ids = p.ids;
  args.topk_weights = p.weights;
  layer.is_reference() ? reference::topk(args) : cpu::topk(args, executor);
}

void run_reference(const LayerData& layer, const LayerCall& call, const Pieces& p, int64_t top_k) {
  const auto expert = [&](int64_t e) { return layer.experts[static_cast<size_t>(e)]; };
  const std::vector<reference::Span> y = reference::layer({.spec = layer.spec,
                                                           .tokens = call.tokens,
                                                           .top_k = top_k,
                                                           .x = call.x,
                                                           .topk_ids = p.ids,
                                                           .topk_weights = p.weights,
                                                           .shared = call.shared,
                                                           .expert = expert});
  std::transform(y.begin(), y.end(), call.y,
                 [](const reference::Span& s) { return formats::bf16_from_f64(s.value); });
}

void run_panels(const LayerData& layer, const LayerCall& call, const Pieces& p, int64_t top_k,
                Executor& executor) {
  cpu::run_experts({.spec = &layer.spec,
                    .weights = layer.source.get(),
                    .tokens = call.tokens,
                    .top_k = top_k,
                    .x = call.x,
                    .topk_ids = p.ids,
                    .workspace = p.experts,
                    .permuted = p.permuted,
                    .rows = p.rows,
                    .trace = call.trace},
                   layer.dot(), executor);
  if (call.y == nullptr) return;
  cpu::finalize({.rows = p.rows,
                 .topk_weights = p.weights,
                 .permuted = p.permuted,
                 .shared = call.shared,
                 .scale = 1.0F,  // the router's is in the weights
                 .tokens = call.tokens,
                 .top_k = top_k,
                 .hidden = layer.spec.hidden,
                 .y = call.y},
                executor);
}

// What a device makes of a call: the same, with ids, weights or logits as given.
cuda::DeviceCall device_call(const LayerData& layer, const LayerCall& call) {
  return {.tokens = call.tokens,
          .top_k = top_k_of(layer, call),
          .x = call.x,
          .ids = call.given_ids,
          .weights = call.given_weights,
          .logits = has_ids(call) ? nullptr : call.logits,
          .input_ids = call.input_ids,
          .shared = call.shared,
          .y = call.y,
          .topk_ids = call.topk_ids,
          .topk_weights = call.topk_weights,
          .rows = call.rows,
          .permuted = call.permuted,
          .x_quant = call.trace.x_quant,
          .x_scale = call.trace.x_scale,
          .h_values = call.trace.h_values,
          .h_scales = call.trace.h_scales,
          .h = call.trace.h};
}

void make_ids(const LayerData& layer, const LayerCall& call, const Pieces& p, Executor& executor) {
  if (has_ids(call)) return copy_given(call, call.tokens * top_k_of(layer, call), p);
  route(layer, call, p, executor);
}

// The router runs here, in the workspace: device memory may be short, and a refused call writes nothing.
Status run_device(const LayerData& layer, const LayerCall& call, const Pieces& p,
                  Executor& executor) {
  cuda::DeviceCall routed = device_call(layer, call);
  routed.ids = {p.ids, false};
  routed.weights = p.weights;
  OCTET_RETURN_IF_ERROR(layer.device->check(routed));
  LayerCall inside = call;
  inside.logits_out = nullptr;
  make_ids(layer, inside, p, executor);
  OCTET_RETURN_IF_ERROR(layer.device->run(routed));
  const int64_t slots = call.tokens * routed.top_k;
  if (call.topk_ids != nullptr) std::copy_n(p.ids, slots, call.topk_ids);
  if (call.topk_weights != nullptr) std::copy_n(p.weights, slots, call.topk_weights);
  const float* const logits = call.logits != nullptr ? call.logits : p.logits;
  if (call.logits_out != nullptr && call.logits_out != logits)
    std::copy_n(logits, call.tokens * layer.spec.experts, call.logits_out);
  return {};
}

}  // namespace

int64_t layer_workspace_bytes(const LayerData& layer, int64_t tokens, int64_t top_k,
                              int num_threads) {
  return pieces_of(layer, tokens, top_k, num_threads, nullptr).total_bytes;
}

Status enqueue_layer(const LayerData& layer, const LayerCall& call, void* workspace,
                     int64_t workspace_bytes, void* stream) {
  OCTET_RETURN_IF_ERROR(check_outputs(layer, call));
  if (call.logits_out != nullptr) {
    return invalid_argument("logits_out: an output that calls on a device do not make");
  }
  if (has_ids(call) && (call.topk_ids != nullptr || call.topk_weights != nullptr)) {
    return invalid_argument(
        "topk_ids_out, topk_weights_out: outputs that given topk_ids do not make on a device");
  }
  return layer.device->enqueue(device_call(layer, call), workspace, workspace_bytes, stream);
}

Status run_layer(const LayerData& layer, const LayerCall& call, std::byte* workspace,
                 int64_t workspace_bytes, Executor& executor) {
  OCTET_RETURN_IF_ERROR(check_call(layer, call));
  if (call.tokens == 0) return {};
  const int64_t top_k = top_k_of(layer, call);
  const int threads = executor.num_threads();
  OCTET_RETURN_IF_ERROR(check_workspace(workspace, workspace_bytes,
                                        layer_workspace_bytes(layer, call.tokens, top_k, threads)));
  Pieces p = pieces_of(layer, call.tokens, top_k, threads, workspace);
  if (layer.device != nullptr) return run_device(layer, call, p, executor);
  if (call.logits_out != nullptr) p.logits = call.logits_out;
  if (call.topk_ids != nullptr) p.ids = call.topk_ids;
  if (call.topk_weights != nullptr) p.weights = call.topk_weights;
  if (call.permuted != nullptr) p.permuted = call.permuted;
  if (call.rows != nullptr) p.rows = call.rows;
  make_ids(layer, call, p, executor);
  if (layer.is_reference()) {
    run_reference(layer, call, p, top_k);
  } else {
    run_panels(layer, call, p, top_k, executor);
  }
  return {};
}

}  // namespace octet::dispatch
