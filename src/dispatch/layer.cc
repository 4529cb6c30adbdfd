// SPDX-License-Identifier: Apache-2.0
#include "dispatch/layer.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "core/float_environment.h"
#include "cuda/device_bytes.h"
#include "dispatch/checkpoint_order.h"
#include "dispatch/layer_data.h"
#include "routing/record.h"

namespace octet::dispatch {

struct Layer::Impl : LayerData {};

namespace {

constexpr int64_t kBoundMaxTokens = 8;
constexpr uintptr_t kRowAlignment = 16;

bool is_gate_dtype(const TensorView& t) {
  return t.dtype == Dtype::kBf16 || t.dtype == Dtype::kF32;
}

Status check_gate_tensor(std::string_view name, const TensorView& t, bool dtype_ok,
                         const Dims& want) {
  if (t.data == nullptr || (dtype_ok && t.dims == want)) return {};
  return invalid_argument(fmt::format("gate {}: {} {}, want {}", name, dtype_name(t.dtype),
                                      to_string(t.dims), to_string(want)));
}

Status check_gate(const checkpoint::Gate& g, const LayerSpec& spec) {
  const Dims per_expert{spec.experts};
  OCTET_RETURN_IF_ERROR(
      check_gate_tensor("weight", g.weight, is_gate_dtype(g.weight), {spec.experts, spec.hidden}));
  OCTET_RETURN_IF_ERROR(
      check_gate_tensor("logit_bias", g.logit_bias, is_gate_dtype(g.logit_bias), per_expert));
  OCTET_RETURN_IF_ERROR(check_gate_tensor("bias", g.bias, g.bias.dtype == Dtype::kF32, per_expert));
  OCTET_RETURN_IF_ERROR(
      check_gate_tensor("bias_vl", g.bias_vl, g.bias_vl.dtype == Dtype::kF32, per_expert));
  const int64_t vocab = g.table.dims.empty() ? 0 : g.table.dims[0];
  return check_gate_tensor("table", g.table, g.table.dtype == Dtype::kI32,
                           {vocab, spec.router.top_k});
}

Status check_expert(const layouts::ExpertWeights& e, const LayerSpec& spec) {
  const auto fits = [&](const layouts::WeightView& w, int64_t rows, int64_t cols) {
    return w.format == spec.weights && w.rows == rows && w.cols == cols;
  };
  if (fits(e.gate, spec.intermediate, spec.hidden) && fits(e.up, spec.intermediate, spec.hidden) &&
      fits(e.down, spec.hidden, spec.intermediate)) {
    return {};
  }
  return internal_error(fmt::format(
      "an expert's matrices are [{}, {}], [{}, {}], [{}, {}], want I {}, H {}", e.gate.rows,
      e.gate.cols, e.up.rows, e.up.cols, e.down.rows, e.down.cols, spec.intermediate, spec.hidden));
}

Status check_tensors(const checkpoint::LayerTensors& t) {
  if (std::ssize(t.experts) != t.spec.local_experts) {
    return internal_error(
        fmt::format("{} experts, want {}", t.experts.size(), t.spec.local_experts));
  }
  for (const layouts::ExpertWeights& e : t.experts) {
    if (!t.packed) OCTET_RETURN_IF_ERROR(check_expert(e, t.spec));
  }
  return check_gate(t.gate, t.spec);
}

// The gate's tensors, which are small beside the experts, in memory of the layer's own.
void own_gate(const checkpoint::Gate& from, LayerData& layer) {
  layer.gate = from;
  checkpoint::Gate& g = layer.gate;
  for (TensorView* t : {&g.weight, &g.logit_bias, &g.bias, &g.bias_vl, &g.table}) {
    if (t->data == nullptr) continue;
    *t = layer.owned.emplace_back(copy_of(*t)).view();
    layer.resident_bytes += static_cast<int64_t>(t->num_bytes());
  }
}

LayerSpec spec_of(const PreparedBinding& b) {
  LayerSpec s;
  s.hidden = 2 * b.tensors.w13.dim(2);
  s.intermediate = b.intermediate;
  s.experts = s.local_experts = b.tensors.w13.dim(0);
  s.weights = WeightFormat::kMxfp4;
  s.activations = Activations::kMxfp8;
  s.router.top_k = b.top_k;
  return s;
}

Status check_device(const LayerData& layer) {
  if (layer.device != nullptr) return {};
  return unsupported(
      fmt::format("kernel {} runs on the host, want a layer loaded with backend cuda",
                  layer.selection.kernel->name));
}

// Onto the device, with the chosen kernel or, where that does not take the weights' values, with the next one.
Status load_device(const checkpoint::LayerTensors& tensors, Problem problem, Executor& executor,
                   const Progress& progress, LayerData& layer) {
  for (;;) {
    const Kernel& kernel = *layer.selection.kernel;
    auto loaded = cuda::DeviceLayer::load(tensors, *device_experts(kernel.isa), executor, progress);
    if (loaded.ok()) {
      layer.device = std::move(loaded).value();
      layer.resident_bytes += layer.device->device_bytes();
      return {};
    }
    if (loaded.status().code != Code::kUnsupported) return loaded.status();
    problem.unfit[kernel.name] = loaded.status().why;
    OCTET_ASSIGN_OR_RETURN(layer.selection, select_or_refuse(problem));
  }
}

// Host copies of tensors in device memory take their place.
Status copy_from_devices(layouts::PreparedTensors& t, std::vector<Tensor>& copies) {
  for (TensorView* view : {&t.w13, &t.w13_scale, &t.w2, &t.w2_scale, &t.clamp}) {
    if (view->data == nullptr || !cuda::is_device_memory(view->data)) continue;
    Tensor& copy = copies.emplace_back(view->dtype, view->dims);
    OCTET_RETURN_IF_ERROR(
        cuda::copy_bytes(copy.data(), view->data, static_cast<int64_t>(copy.num_bytes())));
    *view = copy.view();
  }
  return {};
}

Problem problem_in(WeightOrder order, const LayerSpec& spec, const LayerOptions& options) {
  return {.spec = spec,
          .tokens = 0,
          .backend = options.backend,
          .kernel = options.kernel,
          .order = order,
          .rows = options.rows};
}

}  // namespace

bool asks_for_cuda(const LayerOptions& options) {
  const auto is_named = [&](const Kernel& k) { return k.name == options.kernel && is_cuda(k.isa); };
  return options.backend == Backend::kCuda || std::ranges::any_of(kernels(), is_named);
}

Problem problem_of(const checkpoint::LayerTensors& tensors, const LayerOptions& options) {
  const WeightOrder order = tensors.packed ? WeightOrder::kPacked : WeightOrder::kCheckpoint;
  Problem problem = problem_in(order, tensors.spec, options);
  problem.down_start = tensors.down_start();
  return problem;
}

Result<Layer> Layer::load(const checkpoint::LayerTensors& tensors, const LayerOptions& options,
                          Executor& executor, const Progress& progress) {
  auto impl = std::make_shared<Impl>();
  impl->spec = tensors.spec;
  const Problem problem = problem_of(tensors, options);
  OCTET_ASSIGN_OR_RETURN(impl->selection, select_or_refuse(problem));
  OCTET_RETURN_IF_ERROR(check_tensors(tensors));
  impl->expert_bytes = tensors.expert_bytes();
  own_gate(tensors.gate, *impl);
  if (is_cuda(impl->selection.kernel->isa)) {
    OCTET_RETURN_IF_ERROR(check_no_memory(options.memory, impl->selection.kernel->name));
    if (tensors.packed) OCTET_RETURN_IF_ERROR(check_packed(*tensors.packed, impl->spec));
    OCTET_RETURN_IF_ERROR(load_device(tensors.packed ? unpacked(tensors, executor) : tensors,
                                      problem, executor, progress, *impl));
  } else if (!impl->is_reference()) {
    OCTET_RETURN_IF_ERROR(load_panels(tensors, options.memory, executor, progress, *impl));
  } else {
    OCTET_RETURN_IF_ERROR(check_no_memory(options.memory, impl->selection.kernel->name));
    impl->experts = tensors.experts;
    impl->keep = tensors.keep;
  }
  Layer layer;
  layer.impl_ = std::move(impl);
  return layer;
}

Result<Layer> Layer::bind(const PreparedBinding& binding, const LayerOptions& options) {
  layouts::PreparedTensors t = binding.tensors;
  std::vector<Tensor> copies;
  // Only then is memory looked at that may be a device's.
  if (asks_for_cuda(options)) OCTET_RETURN_IF_ERROR(copy_from_devices(t, copies));
  OCTET_RETURN_IF_ERROR(layouts::check_weights(t, binding.top_k, binding.intermediate));
  auto impl = std::make_shared<Impl>();
  impl->spec = spec_of(binding);
  impl->expert_bytes = layouts::expert_weight_bytes(impl->spec, 0);
  impl->is_bound = true;
  const Problem problem = problem_in(WeightOrder::kPrepared, impl->spec, options);
  OCTET_ASSIGN_OR_RETURN(impl->selection, select_or_refuse(problem));
  if (is_cuda(impl->selection.kernel->isa)) {
    InlineExecutor here;
    OCTET_RETURN_IF_ERROR(load_device(unprepared(t, impl->spec, here), problem, here, {}, *impl));
  } else {
    impl->source = std::make_unique<cpu::PreparedPanels>(
        cpu::PreparedPanels::Tensors{.w13 = t.w13.as<uint8_t>(),
                                     .w13_scale = t.w13_scale.as<uint8_t>(),
                                     .w2 = t.w2.as<uint8_t>(),
                                     .w2_scale = t.w2_scale.as<uint8_t>(),
                                     .clamp = t.clamp.as<float>(),
                                     .experts = impl->spec.experts,
                                     .hidden = impl->spec.hidden,
                                     .padded = layouts::padded_intermediate(binding.intermediate),
                                     .intermediate = binding.intermediate});
  }
  Layer layer;
  layer.impl_ = std::move(impl);
  return layer;
}

const LayerSpec& Layer::spec() const { return impl_->spec; }
const Selection& Layer::selection() const { return impl_->selection; }
int64_t Layer::resident_bytes() const { return impl_->resident_bytes; }
int64_t Layer::weight_bytes() const { return impl_->spec.local_experts * impl_->expert_bytes; }

int64_t Layer::bytes_read(const int32_t* topk_ids, int64_t num_slots) const {
  std::vector<bool> is_read(static_cast<size_t>(spec().local_experts));
  for (int64_t i = 0; i < num_slots; ++i) {
    const int64_t e = int64_t{topk_ids[i]} - spec().first_expert;
    if (e >= 0 && e < spec().local_experts) is_read[static_cast<size_t>(e)] = true;
  }
  return std::count(is_read.begin(), is_read.end(), true) * impl_->expert_bytes;
}

int64_t Layer::workspace_bytes(int64_t tokens, int64_t top_k, int num_threads) const {
  return layer_workspace_bytes(*impl_, tokens, top_k, num_threads);
}

Status Layer::accepts(const TensorView& x) const {
  const int64_t hidden = spec().hidden;
  if (x.dtype != Dtype::kBf16) {
    return invalid_argument(fmt::format("x: dtype {}, want BF16", dtype_name(x.dtype)));
  }
  if (x.dims.size() != 2 || x.dim(1) != hidden) {
    return invalid_argument(fmt::format("x: shape {}, want [T, {}]", to_string(x.dims), hidden));
  }
  if (impl_->is_bound && (x.dim(0) < 1 || x.dim(0) > kBoundMaxTokens)) {
    return invalid_argument(fmt::format("x: {} rows, want 1..{}", x.dim(0), kBoundMaxTokens));
  }
  if (const uintptr_t off = reinterpret_cast<uintptr_t>(x.data) % kRowAlignment; off != 0) {
    return invalid_argument(
        fmt::format("x: address is {} past a multiple of {}, want a multiple", off, kRowAlignment));
  }
  return {};
}

Result<int64_t> Layer::device_workspace_bytes(int64_t tokens, int64_t top_k) const {
  OCTET_RETURN_IF_ERROR(check_device(*impl_));
  return impl_->device->workspace_bytes(tokens, top_k);
}

Status Layer::enqueue(const LayerCall& call, void* workspace, int64_t workspace_bytes,
                      void* stream) const {
  OCTET_RETURN_IF_ERROR(check_device(*impl_));
  return enqueue_layer(*impl_, call, workspace, workspace_bytes, stream);
}

Status Layer::run(const LayerCall& call, std::byte* workspace, int64_t workspace_bytes,
                  Executor& executor) const {
  const FloatEnvironment environment;
  return run_layer(*impl_, call, workspace, workspace_bytes, executor);
}

}  // namespace octet::dispatch
