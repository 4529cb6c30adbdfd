// SPDX-License-Identifier: Apache-2.0
#include "layer_session.h"

#include <cstddef>
#include <fmt/format.h>
#include <utility>

#include "cpu/thread_pool.h"
#include "dispatch/select.h"
#include "layouts/panel.h"
#include "memory.h"
#include "progress_bar.h"
#include "report.h"

namespace octet::tools {
namespace {

void make_trace_tensors(const LayerSpec& spec, int64_t tokens, int64_t top_k, LayerOutput& out) {
  const int64_t slots = tokens * top_k;
  out.rows = Tensor(Dtype::kBf16, {slots, spec.hidden});
  out.permuted = Tensor(Dtype::kI32, {tokens, top_k});
  if (spec.activations == Activations::kMxfp8) {
    out.x_quant = Tensor(Dtype::kE4m3, {tokens, spec.hidden});
    out.x_scale = Tensor(Dtype::kU8, {tokens, spec.hidden / kMxBlock});
    out.h_values = Tensor(Dtype::kE4m3, {slots, spec.intermediate});
    out.h_scales = Tensor(Dtype::kU8, {slots, ceil_div(spec.intermediate, kMxBlock)});
  } else {
    out.h = Tensor(Dtype::kBf16, {slots, spec.intermediate});
  }
}

// Null for a tensor that was not made.
template <class T>
T* pointer(Tensor& tensor) {
  return tensor.data() == nullptr ? nullptr : tensor.as<T>();
}

dispatch::LayerCall make_call(const LayerInput& input, LayerOutput& out) {
  dispatch::LayerCall call;
  call.tokens = input.tokens();
  call.x = input.x.as<Bf16>();
  if (input.has(input.topk_ids)) {
    call.given_ids = {input.topk_ids.data(), false};
    call.given_weights = input.topk_weights.as<float>();
    call.given_top_k = input.topk_ids.dims()[1];
  } else if (input.has(input.logits)) {
    call.logits = input.logits.as<float>();
  }
  if (input.has(input.input_ids)) call.input_ids = {input.input_ids.data(), true};
  call.y = out.y.as<Bf16>();
  call.topk_ids = out.topk_ids.as<int32_t>();
  call.topk_weights = out.topk_weights.as<float>();
  call.rows = pointer<Bf16>(out.rows);
  call.permuted = pointer<int32_t>(out.permuted);
  call.logits_out = pointer<float>(out.logits);
  call.trace = {pointer<uint8_t>(out.x_quant), pointer<uint8_t>(out.x_scale),
                pointer<uint8_t>(out.h_values), pointer<uint8_t>(out.h_scales),
                pointer<Bf16>(out.h)};
  return call;
}

}  // namespace

Result<LayerSession> LayerSession::open(const std::filesystem::path& model, int64_t layer,
                                        const LayerFlags& flags) {
  LayerSession s;
  s.path_ = model.string();
  s.index_ = layer;
  OCTET_ASSIGN_OR_RETURN(const checkpoint::LoadOptions load, load_options(flags));
  OCTET_ASSIGN_OR_RETURN(s.options_, layer_options(flags));
  OCTET_ASSIGN_OR_RETURN(const int threads, octet::tools::num_threads(flags));
  s.shard_ = load.shard;
  OCTET_ASSIGN_OR_RETURN(s.model_, checkpoint::Model::open(model));
  OCTET_ASSIGN_OR_RETURN(s.tensors_, s.model_.layer(layer, load));
  s.executor_ = std::make_unique<cpu::ThreadPool>(threads);
  return s;
}

Status LayerSession::load() {
  const dispatch::Kernel* const kernel =
      dispatch::select(dispatch::problem_of(tensors_, options_)).kernel;
  const bool is_mapped = tensors_.packed && options_.memory.packed == dispatch::PackedUse::kMmap;
  if (kernel == nullptr) {
    // Layer::load has the reasons.
  } else if (dispatch::is_cuda(kernel->isa)) {
    OCTET_RETURN_IF_ERROR(check_memory_of_device_load(tensors_));
  } else if (kernel->isa != dispatch::Isa::kReference && !is_mapped && !tensors_.experts.empty()) {
    const layouts::PanelSizes sizes =
        tensors_.packed ? tensors_.packed->sizes : layouts::panel_sizes(tensors_.experts.front());
    const int64_t expert = sizes.expert_bytes();
    OCTET_RETURN_IF_ERROR(check_memory("loading the layer", spec().local_experts * expert));
  }
  const Stopwatch watch;
  ProgressBar bar("loading");
  OCTET_ASSIGN_OR_RETURN(layer_,
                         dispatch::Layer::load(tensors_, options_, *executor_, bar.callback()));
  load_seconds_ = watch.seconds();
  return {};
}

int64_t LayerSession::run_bytes(int64_t tokens, int64_t top_k, bool trace) const {
  const int64_t slot = top_k * static_cast<int64_t>(sizeof(int32_t) + sizeof(float));
  int64_t row = spec().hidden * static_cast<int64_t>(sizeof(Bf16)) + slot + 4 * spec().experts;
  if (trace) {  // rows, x, h: none wider than two bytes an element
    row += 2 * (top_k + 1) * spec().hidden + 2 * top_k * spec().intermediate;
  }
  return tokens * row + layer_.workspace_bytes(tokens, top_k, executor_->num_threads());
}

Result<LayerOutput> LayerSession::run(const LayerInput& input, bool trace) {
  const int64_t tokens = input.tokens();
  const int64_t top_k = input.has(input.topk_ids) ? input.topk_ids.dims()[1] : spec().router.top_k;
  OCTET_RETURN_IF_ERROR(check_memory(count_text(tokens, "row"), run_bytes(tokens, top_k, trace)));
  LayerOutput out;
  out.y = Tensor(Dtype::kBf16, {tokens, spec().hidden});
  out.topk_ids = Tensor(Dtype::kI32, {tokens, top_k});
  out.topk_weights = Tensor(Dtype::kF32, {tokens, top_k});
  if (trace) make_trace_tensors(spec(), tokens, top_k, out);
  // Given ids come from no logits.
  if (!input.has(input.topk_ids)) {
    out.logits = Tensor(Dtype::kF32, {tokens, spec().experts});
  }
  const int64_t bytes = layer_.workspace_bytes(tokens, top_k, executor_->num_threads());
  Tensor workspace(Dtype::kU8, {bytes});
  const dispatch::LayerCall call = make_call(input, out);
  const BusyBar bar(trace ? "running, with trace" : "running");
  const Stopwatch watch;
  OCTET_RETURN_IF_ERROR(layer_.run(call, workspace.data(), bytes, *executor_));
  out.seconds = watch.seconds();
  return out;
}

std::string LayerSession::title() const {
  std::string where{model_.format()};
  if (shard_.tp_ranks > 1) where += fmt::format(", tp {}/{}", shard_.tp_rank, shard_.tp_ranks);
  if (shard_.ep_ranks > 1) where += fmt::format(", ep {}/{}", shard_.ep_rank, shard_.ep_ranks);
  return fmt::format("layer {} of {} ({})", index_, path_, where);
}

}  // namespace octet::tools
