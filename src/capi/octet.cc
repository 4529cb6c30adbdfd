// SPDX-License-Identifier: Apache-2.0
// The C interface: check arguments, call, turn a Status into a code. No logic of its own.
#include "octet/octet.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "capi/convert.h"
#include "capi/guard.h"
#include "checkpoint/model.h"
#include "cpu/thread_pool.h"
#include "cuda/rank_reduce.h"
#include "dispatch/layer.h"
#include "dispatch/operations.h"
#include "dispatch/select.h"

using octet::invalid_argument;
using octet::Status;
using octet::capi::CallbackExecutor;
using octet::capi::guarded;
using octet::capi::read_struct;

struct octet_pool {
  explicit octet_pool(int num_threads)
      : threads(num_threads), executor{this, threads.num_threads(), run} {}
  static void run(void* context, int num_tasks, void (*task)(void*, int), void* arg) {
    static_cast<octet_pool*>(context)->threads.run(num_tasks, task, arg);
  }
  octet::cpu::ThreadPool threads;
  octet_executor executor;
};

struct octet_model {
  octet::checkpoint::Model model;
  std::string format;  // ended by a NUL, unlike the model's own
};

struct octet_layer {
  octet::dispatch::Layer layer;
};

struct octet_tensors {
  octet::NamedTensors tensors;
  std::vector<octet_tensor> views;  // into `tensors`
};

namespace {

// A string literal of a table, whose end is a NUL.
const char* c_str(std::string_view literal) { return literal.data(); }

octet::Progress to_progress(const octet_load_options& options) {
  if (options.progress == nullptr) return {};
  return [report = options.progress, context = options.progress_context](
             int64_t done, int64_t total) { report(context, done, total); };
}

octet_layer_info describe(const octet::dispatch::Layer& layer) {
  const octet::LayerSpec& spec = layer.spec();
  octet_layer_info info = OCTET_LAYER_INFO_INIT;
  info.hidden = spec.hidden;
  info.intermediate = spec.intermediate;
  info.experts = spec.experts;
  info.first_expert = spec.first_expert;
  info.local_experts = spec.local_experts;
  info.top_k = spec.router.top_k;
  info.weights = spec.weights == octet::WeightFormat::kMxfp4 ? OCTET_MXFP4 : OCTET_NVFP4;
  info.activations = spec.activations == octet::Activations::kBf16 ? OCTET_ACTIVATIONS_BF16
                                                                   : OCTET_ACTIVATIONS_MXFP8;
  info.precision =
      spec.precision == octet::Precision::kExact ? OCTET_PRECISION_EXACT : OCTET_PRECISION_FAST;
  info.has_shared_experts = spec.has_shared_experts ? 1 : 0;
  info.router = c_str(name_of(spec.router.kind));
  info.kernel = c_str(layer.selection().kernel->name);
  info.weight_bytes = layer.weight_bytes();
  info.resident_bytes = layer.resident_bytes();
  return info;
}

std::string explain(const octet::dispatch::Selection& selection) {
  std::string text = fmt::format("{}  yes\n", selection.kernel->name);
  for (const auto& [kernel, why] : selection.refused) {
    text += fmt::format("{}  no  {}\n", kernel->name, why);
  }
  return text;
}

}  // namespace

const char* octet_last_error(void) { return octet::capi::last_error(); }
const char* octet_version(void) { return OCTET_VERSION; }
int octet_abi_version(void) { return OCTET_ABI_VERSION; }

octet_status octet_pool_create(int num_threads, octet_pool** out) {
  return guarded([&]() -> Status {
    OCTET_REQUIRE(out);
    *out = nullptr;
    if (num_threads < 0 || num_threads > octet::cpu::kMaxThreads) {
      return invalid_argument(
          fmt::format("num_threads {}, want 0 ... {}", num_threads, octet::cpu::kMaxThreads));
    }
    *out = new octet_pool(num_threads);
    return {};
  });
}

void octet_pool_destroy(octet_pool* pool) { delete pool; }

const octet_executor* octet_pool_executor(const octet_pool* pool) {
  return pool == nullptr ? nullptr : &pool->executor;
}

octet_status octet_model_open(const char* path, octet_model** out) {
  return guarded([&]() -> Status {
    OCTET_REQUIRE(out);
    *out = nullptr;
    OCTET_REQUIRE(path);
    OCTET_ASSIGN_OR_RETURN(auto model, octet::checkpoint::Model::open(path));
    std::string format(model.format());
    *out = new octet_model{std::move(model), std::move(format)};
    return {};
  });
}

void octet_model_close(octet_model* model) { delete model; }

int64_t octet_model_num_layers(const octet_model* model) {
  return model == nullptr ? 0 : static_cast<int64_t>(model->model.layers().size());
}

octet_status octet_model_layer_index(const octet_model* model, int64_t position, int64_t* out) {
  return guarded([&]() -> Status {
    OCTET_REQUIRE(model);
    OCTET_REQUIRE(out);
    const std::vector<int64_t>& layers = model->model.layers();
    if (position < 0 || static_cast<size_t>(position) >= layers.size()) {
      return invalid_argument(
          fmt::format("position {}, want 0 or more and below {}", position, layers.size()));
    }
    *out = layers[static_cast<size_t>(position)];
    return {};
  });
}

const char* octet_model_format(const octet_model* model) {
  return model == nullptr ? nullptr : model->format.c_str();
}

octet_status octet_layer_load(const octet_model* model, int64_t layer_index,
                              const octet_load_options* options, const octet_executor* executor,
                              octet_layer** out) {
  return guarded([&]() -> Status {
    OCTET_REQUIRE(out);
    *out = nullptr;
    OCTET_REQUIRE(model);
    OCTET_RETURN_IF_ERROR(CallbackExecutor::check(executor));
    octet_load_options given = OCTET_LOAD_OPTIONS_INIT;
    if (options != nullptr) {
      constexpr size_t kFirstBytes = offsetof(octet_load_options, pages);
      OCTET_ASSIGN_OR_RETURN(given, read_struct(options, kFirstBytes, "options"));
    }
    OCTET_ASSIGN_OR_RETURN(const auto load, octet::capi::to_load_options(given));
    OCTET_ASSIGN_OR_RETURN(auto choice, octet::capi::to_layer_options(given.backend, given.kernel));
    OCTET_ASSIGN_OR_RETURN(choice.memory, octet::capi::to_memory_options(given));
    OCTET_ASSIGN_OR_RETURN(const auto tensors, model->model.layer(layer_index, load));
    CallbackExecutor threads(executor);
    OCTET_ASSIGN_OR_RETURN(
        auto layer, octet::dispatch::Layer::load(tensors, choice, threads, to_progress(given)));
    *out = new octet_layer{std::move(layer)};
    return {};
  });
}

octet_status octet_layer_bind(const octet_prepared_weights* weights, octet_layer** out) {
  return guarded([&]() -> Status {
    OCTET_REQUIRE(out);
    *out = nullptr;
    OCTET_ASSIGN_OR_RETURN(const auto given,
                           read_struct(weights, sizeof(octet_prepared_weights), "weights"));
    OCTET_ASSIGN_OR_RETURN(const auto binding, octet::capi::to_binding(given));
    OCTET_ASSIGN_OR_RETURN(const auto choice,
                           octet::capi::to_layer_options(given.backend, given.kernel));
    OCTET_ASSIGN_OR_RETURN(auto layer, octet::dispatch::Layer::bind(binding, choice));
    *out = new octet_layer{std::move(layer)};
    return {};
  });
}

void octet_layer_free(octet_layer* layer) { delete layer; }

octet_status octet_layer_get_info(const octet_layer* layer, octet_layer_info* info) {
  return guarded([&]() -> Status {
    OCTET_REQUIRE(layer);
    // An output: only the size is read, and fields that this library does not know stay as they are.
    OCTET_REQUIRE(info);
    const size_t size = info->struct_size;
    if (size < sizeof(octet_layer_info)) {
      return invalid_argument(
          fmt::format("info.struct_size {}, want at least {}", size, sizeof(octet_layer_info)));
    }
    *info = describe(layer->layer);
    info->struct_size = size;
    return {};
  });
}

octet_status octet_layer_explain(const octet_layer* layer, char* buffer, size_t buffer_bytes,
                                 size_t* needed_bytes) {
  return guarded([&]() -> Status {
    OCTET_REQUIRE(layer);
    if (buffer_bytes > 0) OCTET_REQUIRE(buffer);
    OCTET_REQUIRE(needed_bytes);
    const std::string text = explain(layer->layer.selection());
    *needed_bytes = text.size() + 1;
    if (buffer_bytes == 0) return {};
    const size_t copied = std::min(text.size(), buffer_bytes - 1);
    std::memcpy(buffer, text.data(), copied);
    buffer[copied] = '\0';
    return {};
  });
}

octet_status octet_layer_workspace_bytes(const octet_layer* layer, int64_t tokens, int64_t top_k,
                                         int num_threads, size_t* bytes) {
  return guarded([&]() -> Status {
    OCTET_REQUIRE(layer);
    OCTET_REQUIRE(bytes);
    const int64_t k = top_k == 0 ? layer->layer.spec().router.top_k : top_k;
    OCTET_RETURN_IF_ERROR(octet::capi::check_tokens(tokens, k));
    if (num_threads < 1) {
      return invalid_argument(fmt::format("num_threads {}, want 1 or more", num_threads));
    }
    *bytes = static_cast<size_t>(layer->layer.workspace_bytes(tokens, k, num_threads));
    return {};
  });
}

octet_status octet_layer_accepts(const octet_layer* layer, const octet_tensor* x) {
  return guarded([&]() -> Status {
    OCTET_REQUIRE(layer);
    OCTET_REQUIRE(x);
    OCTET_ASSIGN_OR_RETURN(const octet::TensorView view,
                           octet::capi::need_view(*x, "x", "BF16 [T, H]"));
    return layer->layer.accepts(view);
  });
}

octet_status octet_layer_run(const octet_layer* layer, const octet_call* call, void* workspace,
                             size_t workspace_bytes, const octet_executor* executor) {
  return guarded([&]() -> Status {
    OCTET_REQUIRE(layer);
    if (workspace_bytes > 0) OCTET_REQUIRE(workspace);
    OCTET_RETURN_IF_ERROR(CallbackExecutor::check(executor));
    OCTET_ASSIGN_OR_RETURN(const auto given, read_struct(call, sizeof(octet_call), "call"));
    OCTET_ASSIGN_OR_RETURN(const auto to, octet::capi::to_layer_call(given));
    CallbackExecutor threads(executor);
    // What no int64_t holds is more than any layer needs.
    const auto bytes = static_cast<int64_t>(
        std::min<size_t>(workspace_bytes, std::numeric_limits<int64_t>::max()));
    return layer->layer.run(to, static_cast<std::byte*>(workspace), bytes, threads);
  });
}

octet_status octet_layer_device_workspace_bytes(const octet_layer* layer, int64_t tokens,
                                                int64_t top_k, size_t* bytes) {
  return guarded([&]() -> Status {
    OCTET_REQUIRE(layer);
    OCTET_REQUIRE(bytes);
    const int64_t k = top_k == 0 ? layer->layer.spec().router.top_k : top_k;
    OCTET_RETURN_IF_ERROR(octet::capi::check_tokens(tokens, k));
    OCTET_ASSIGN_OR_RETURN(const int64_t needed, layer->layer.device_workspace_bytes(tokens, k));
    *bytes = static_cast<size_t>(needed);
    return {};
  });
}

octet_status octet_layer_enqueue(const octet_layer* layer, const octet_call* call, void* workspace,
                                 size_t workspace_bytes, void* stream) {
  return guarded([&]() -> Status {
    OCTET_REQUIRE(layer);
    OCTET_ASSIGN_OR_RETURN(const auto given, read_struct(call, sizeof(octet_call), "call"));
    OCTET_ASSIGN_OR_RETURN(const auto to, octet::capi::to_layer_call(given));
    const auto bytes = static_cast<int64_t>(
        std::min<size_t>(workspace_bytes, std::numeric_limits<int64_t>::max()));
    return layer->layer.enqueue(to, workspace, bytes, stream);
  });
}

octet_status octet_enqueue_rank_sum(void* comm, octet_bf16* partials, int64_t count, octet_bf16* y,
                                    void* stream) {
  return guarded([&]() -> Status {
    return octet::cuda::reduce_over_ranks({.comm = comm,
                                           .partials = reinterpret_cast<octet::Bf16*>(partials),
                                           .count = count,
                                           .y = reinterpret_cast<octet::Bf16*>(y)},
                                          stream);
  });
}

int octet_kernel_count(void) { return static_cast<int>(octet::dispatch::kernels().size()); }

const char* octet_kernel_name(int index) {
  if (index < 0 || index >= octet_kernel_count()) return nullptr;
  return c_str(octet::dispatch::kernels()[static_cast<size_t>(index)].name);
}

octet_status octet_op(const char* name, const octet_tensor* inputs, size_t num_inputs,
                      const octet_setting* settings, size_t num_settings, const char* backend,
                      const octet_executor* executor, octet_tensors** out) {
  return guarded([&]() -> Status {
    OCTET_REQUIRE(out);
    *out = nullptr;
    OCTET_REQUIRE(name);
    OCTET_RETURN_IF_ERROR(CallbackExecutor::check(executor));
    OCTET_ASSIGN_OR_RETURN(const auto views, octet::capi::to_views(inputs, num_inputs));
    OCTET_ASSIGN_OR_RETURN(const auto values, octet::capi::to_settings(settings, num_settings));
    OCTET_ASSIGN_OR_RETURN(const auto where, octet::capi::to_backend(backend));
    CallbackExecutor threads(executor);
    OCTET_ASSIGN_OR_RETURN(auto results,
                           octet::dispatch::run_operation(name, views, values, where, threads));
    auto made = std::make_unique<octet_tensors>(octet_tensors{std::move(results), {}});
    for (const auto& [key, tensor] : made->tensors) {
      made->views.push_back(octet::capi::to_c(key.c_str(), tensor.view()));
    }
    *out = made.release();
    return {};
  });
}

void octet_tensors_free(octet_tensors* tensors) { delete tensors; }

size_t octet_tensors_count(const octet_tensors* tensors) {
  return tensors == nullptr ? 0 : tensors->views.size();
}

octet_status octet_tensors_get(const octet_tensors* tensors, size_t index, octet_tensor* out) {
  return guarded([&]() -> Status {
    OCTET_REQUIRE(tensors);
    OCTET_REQUIRE(out);
    if (index >= tensors->views.size()) {
      return invalid_argument(fmt::format("index {}, want below {}", index, tensors->views.size()));
    }
    *out = tensors->views[index];
    return {};
  });
}
