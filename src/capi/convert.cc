// SPDX-License-Identifier: Apache-2.0
#include "capi/convert.h"

#include <cstddef>
#include <fmt/format.h>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "capi/guard.h"

namespace octet::capi {
namespace {

static_assert(
    static_cast<int>(Dtype::kF64) == OCTET_F64 && static_cast<int>(Dtype::kF32) == OCTET_F32 &&
    static_cast<int>(Dtype::kF16) == OCTET_F16 && static_cast<int>(Dtype::kBf16) == OCTET_BF16 &&
    static_cast<int>(Dtype::kI64) == OCTET_I64 && static_cast<int>(Dtype::kI32) == OCTET_I32 &&
    static_cast<int>(Dtype::kI16) == OCTET_I16 && static_cast<int>(Dtype::kI8) == OCTET_I8 &&
    static_cast<int>(Dtype::kU8) == OCTET_U8 && static_cast<int>(Dtype::kE4m3) == OCTET_F8_E4M3 &&
    static_cast<int>(Dtype::kE5m2) == OCTET_F8_E5M2 &&
    static_cast<int>(Dtype::kUe8m0) == OCTET_F8_E8M0 &&
    static_cast<int>(Dtype::kBool) == OCTET_BOOL);
static_assert(sizeof(octet_bf16) == sizeof(Bf16));
static_assert(static_cast<int>(dispatch::Pages::kSmall) == OCTET_PAGES_SMALL &&
              static_cast<int>(dispatch::Numa::kInterleave) == OCTET_NUMA_INTERLEAVE &&
              static_cast<int>(dispatch::PackedUse::kCopy) == OCTET_PACKED_COPY);

constexpr int64_t kAddressSpace = int64_t{1} << 57;  // bytes
constexpr int64_t kMostColumns = std::numeric_limits<int32_t>::max();

// Bytes of `dims`, or nothing where they do not fit an address space. A 0 among them frees none of the others: no size that
// passes can overflow in the arithmetic behind.
std::optional<int64_t> checked_bytes(const Dims& dims, Dtype dtype) {
  int64_t bytes = static_cast<int64_t>(dtype_bytes(dtype));
  bool empty = false;
  for (const int64_t dim : dims) {
    empty |= dim == 0;
    const int64_t count = dim == 0 ? 1 : dim;
    if (count > kAddressSpace / bytes) return std::nullopt;
    bytes *= count;
  }
  return empty ? 0 : bytes;
}

const Bf16* bf16(const octet_bf16* bits) { return reinterpret_cast<const Bf16*>(bits); }
Bf16* bf16(octet_bf16* bits) { return reinterpret_cast<Bf16*>(bits); }

Result<TokenIds> to_ids(const void* data, int32_t dtype, std::string_view what) {
  if (data == nullptr) return TokenIds{};
  if (dtype != OCTET_I32 && dtype != OCTET_I64) {
    return invalid_argument(fmt::format("{}_dtype {}, want OCTET_I32 ({}) or OCTET_I64 ({})", what,
                                        dtype, int{OCTET_I32}, int{OCTET_I64}));
  }
  return TokenIds{data, dtype == OCTET_I64};
}

// A call's tasks on the caller's threads. An exception (no memory) waits here until the caller's code is left: it must not
// pass through it.
struct Tasks {
  void (*task)(void* arg, int index);
  void* arg;
  std::atomic_flag has_failed = ATOMIC_FLAG_INIT;
  std::exception_ptr failure = nullptr;  // the first

  static void run_one(void* self, int index) noexcept {
    Tasks& tasks = *static_cast<Tasks*>(self);
    try {
      tasks.task(tasks.arg, index);
    } catch (...) {
      if (!tasks.has_failed.test_and_set()) tasks.failure = std::current_exception();
    }
  }
};

Status check_enum(std::string_view what, int32_t value, int32_t last) {
  if (value >= 0 && value <= last) return {};
  return invalid_argument(fmt::format("{} {}, want 0 ... {}", what, value, last));
}

}  // namespace

Status CallbackExecutor::check(const octet_executor* executor) {
  if (executor == nullptr) return {};
  if (executor->run == nullptr) return invalid_argument("executor.run is NULL");
  if (executor->num_threads >= 1) return {};
  return invalid_argument(
      fmt::format("executor.num_threads {}, want 1 or more", executor->num_threads));
}

void CallbackExecutor::run(int num_tasks, void (*task)(void* arg, int index), void* arg) {
  if (executor_ == nullptr) return InlineExecutor().run(num_tasks, task, arg);
  Tasks tasks{task, arg};
  executor_->run(executor_->context, num_tasks, Tasks::run_one, &tasks);
  if (tasks.failure) std::rethrow_exception(tasks.failure);
}

Result<TensorView> to_view(const octet_tensor& tensor, std::string_view what) {
  if (tensor.dtype < 0 || tensor.dtype > OCTET_BOOL) {
    return invalid_argument(
        fmt::format("{}: dtype {}, want 0 ... {}", what, tensor.dtype, int{OCTET_BOOL}));
  }
  if (tensor.rank < 0 || tensor.rank > OCTET_MAX_RANK) {
    return invalid_argument(
        fmt::format("{}: rank {}, want 0 ... {}", what, tensor.rank, OCTET_MAX_RANK));
  }
  TensorView view{static_cast<Dtype>(tensor.dtype), Dims(tensor.dims, tensor.dims + tensor.rank),
                  static_cast<const std::byte*>(tensor.data)};
  for (const int64_t dim : view.dims) {
    if (dim < 0) {
      return invalid_argument(
          fmt::format("{}: {}, want no negative dimension", what, to_string(view.dims)));
    }
  }
  const std::optional<int64_t> bytes = checked_bytes(view.dims, view.dtype);
  if (!bytes) {
    return invalid_argument(
        fmt::format("{}: {} is more than an address space", what, to_string(view.dims)));
  }
  if (*bytes > 0 && view.data == nullptr) {
    return invalid_argument(fmt::format("{}: data is NULL, want {} bytes", what, *bytes));
  }
  const size_t align = dtype_bytes(view.dtype);
  if (reinterpret_cast<uintptr_t>(view.data) % align != 0) {
    return invalid_argument(
        fmt::format("{}: data is not aligned to its element's {} bytes", what, align));
  }
  return view;
}

Result<TensorView> need_view(const octet_tensor& tensor, std::string_view what,
                             std::string_view wanted) {
  if (tensor.data == nullptr && tensor.rank == 0) {  // OCTET_TENSOR_NONE
    return invalid_argument(fmt::format("{}: missing, want {}", what, wanted));
  }
  return to_view(tensor, what);
}

octet_tensor to_c(const char* name, const TensorView& view) {
  octet_tensor tensor = OCTET_TENSOR_NONE;
  tensor.name = name;
  tensor.dtype = static_cast<int32_t>(view.dtype);
  tensor.rank = static_cast<int32_t>(view.dims.size());
  for (size_t i = 0; i < view.dims.size(); ++i) tensor.dims[i] = view.dims[i];
  tensor.data = view.data;
  return tensor;
}

Result<NamedViews> to_views(const octet_tensor* inputs, size_t count) {
  NamedViews views;
  if (count > 0) OCTET_REQUIRE(inputs);
  for (size_t i = 0; i < count; ++i) {
    if (inputs[i].name == nullptr)
      return invalid_argument(fmt::format("inputs[{}].name is NULL", i));
    OCTET_ASSIGN_OR_RETURN(TensorView view, to_view(inputs[i], inputs[i].name));
    if (!views.emplace(inputs[i].name, std::move(view)).second) {
      return invalid_argument(fmt::format("{}: given twice", inputs[i].name));
    }
  }
  return views;
}

Result<dispatch::Settings> to_settings(const octet_setting* settings, size_t count) {
  dispatch::Settings result;
  if (count > 0) OCTET_REQUIRE(settings);
  for (size_t i = 0; i < count; ++i) {
    const auto [key, value] = settings[i];
    if (key == nullptr) return invalid_argument(fmt::format("settings[{}].key is NULL", i));
    if (value == nullptr) return invalid_argument(fmt::format("setting {}: value is NULL", key));
    if (!result.emplace(key, value).second) {
      return invalid_argument(fmt::format("setting {}: given twice", key));
    }
  }
  return result;
}

Result<Backend> to_backend(const char* name) {
  if (name == nullptr) return Backend::kAuto;
  return backend_from_name(name);
}

Result<dispatch::LayerOptions> to_layer_options(const char* backend, const char* kernel) {
  dispatch::LayerOptions options;
  OCTET_ASSIGN_OR_RETURN(options.backend, to_backend(backend));
  if (kernel != nullptr) options.kernel = kernel;
  return options;
}

Result<dispatch::MemoryOptions> to_memory_options(const octet_load_options& options) {
  OCTET_RETURN_IF_ERROR(check_enum("options.pages", options.pages, OCTET_PAGES_SMALL));
  OCTET_RETURN_IF_ERROR(check_enum("options.numa", options.numa, OCTET_NUMA_INTERLEAVE));
  OCTET_RETURN_IF_ERROR(check_enum("options.packed", options.packed, OCTET_PACKED_COPY));
  OCTET_RETURN_IF_ERROR(check_enum("options.reserved", options.reserved, 0));
  return dispatch::MemoryOptions{static_cast<dispatch::Pages>(options.pages),
                                 static_cast<dispatch::Numa>(options.numa),
                                 static_cast<dispatch::PackedUse>(options.packed)};
}

Result<checkpoint::LoadOptions> to_load_options(const octet_load_options& options) {
  OCTET_RETURN_IF_ERROR(
      check_enum("options.activations", options.activations, OCTET_ACTIVATIONS_MXFP8));
  OCTET_RETURN_IF_ERROR(check_enum("options.precision", options.precision, OCTET_PRECISION_EXACT));
  checkpoint::LoadOptions load;
  load.shard = {options.tp_rank, options.tp_ranks, options.ep_rank, options.ep_ranks};
  if (options.activations == OCTET_ACTIVATIONS_BF16) load.activations = Activations::kBf16;
  if (options.activations == OCTET_ACTIVATIONS_MXFP8) load.activations = Activations::kMxfp8;
  load.precision =
      options.precision == OCTET_PRECISION_EXACT ? Precision::kExact : Precision::kFast;
  if (options.image_sentinel_lo >= 0) load.image_sentinel_lo = options.image_sentinel_lo;
  return load;
}

Result<dispatch::PreparedBinding> to_binding(const octet_prepared_weights& weights) {
  dispatch::PreparedBinding binding;
  binding.intermediate = weights.intermediate;
  binding.top_k = weights.top_k;
  if (weights.intermediate < 1 || weights.intermediate > kMostColumns) {
    return invalid_argument(
        fmt::format("intermediate {}, want 1 ... {}", weights.intermediate, kMostColumns));
  }
  layouts::PreparedTensors& t = binding.tensors;
  OCTET_ASSIGN_OR_RETURN(t.w13, need_view(weights.w13, "w13", "U8 [E, 2 Ip, H/2]"));
  OCTET_ASSIGN_OR_RETURN(t.w13_scale,
                         need_view(weights.w13_scale, "w13_scale", "U8 [E, 2 Ip, H/32]"));
  OCTET_ASSIGN_OR_RETURN(t.w2, need_view(weights.w2, "w2", "U8 [E, H, Ip/2]"));
  OCTET_ASSIGN_OR_RETURN(t.w2_scale, need_view(weights.w2_scale, "w2_scale", "U8 [E, H, Ip/32]"));
  OCTET_ASSIGN_OR_RETURN(t.clamp, need_view(weights.clamp, "clamp", "F32 [E]"));
  return binding;
}

Result<dispatch::LayerCall> to_layer_call(const octet_call& call) {
  OCTET_RETURN_IF_ERROR(check_tokens(call.tokens, call.top_k));
  dispatch::LayerCall to;
  to.tokens = call.tokens;
  to.x = bf16(call.x);
  OCTET_ASSIGN_OR_RETURN(to.given_ids, to_ids(call.topk_ids, call.topk_ids_dtype, "call.topk_ids"));
  to.given_weights = call.topk_weights;
  to.given_top_k = call.top_k;
  to.logits = call.logits;
  OCTET_ASSIGN_OR_RETURN(to.input_ids,
                         to_ids(call.input_ids, call.input_ids_dtype, "call.input_ids"));
  to.shared = bf16(call.shared);
  to.y = bf16(call.y);
  to.topk_ids = call.topk_ids_out;
  to.topk_weights = call.topk_weights_out;
  to.rows = bf16(call.rows);
  to.permuted = call.permuted;
  to.logits_out = call.logits_out;
  to.trace = {call.x_quant, call.x_scale, call.h_values, call.h_scales, bf16(call.h)};
  return to;
}

Status check_tokens(int64_t tokens, int64_t top_k) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (tokens < 0 || tokens > kMost) {
    return invalid_argument(fmt::format("tokens {}, want 0 ... {}", tokens, kMost));
  }
  if (top_k < 0 || top_k > kMost) {
    return invalid_argument(fmt::format("top_k {}, want 0 ... {}", top_k, kMost));
  }
  if (tokens * top_k <= kMost) return {};
  return invalid_argument(
      fmt::format("tokens {} times top_k {}, want {} at most", tokens, top_k, kMost));
}

}  // namespace octet::capi
