// SPDX-License-Identifier: Apache-2.0
// octet.h for C++20: the same calls with handles that free themselves, and Result<T> instead of codes. Header-only over
// octet.h; link liboctet. What each call takes, stores and refuses stands in octet.h.
//
//   namespace oct = octet::api;
//   auto model = oct::Model::open(path);                  Result<Model>
//   auto layer = model->load(0);                          Result<Layer>
//   oct::Workspace workspace(*layer->workspace_bytes(6)); 64-byte aligned
//   octet::Status s = layer->run(call, workspace);        s.why has the sentence
#pragma once

#if __cplusplus < 202002L
#error "octet.hpp needs C++20 (octet.h takes any C++)"
#endif

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "octet/octet.h"
#include "octet/status.hpp"

namespace octet::api {

// The code with this thread's sentence.
inline Status to_status(octet_status code) {
  if (code == OCTET_OK) return {};
  return {static_cast<Code>(code), octet_last_error()};
}

// Structs that begin as their INIT macros say; set fields by name.
struct LoadOptions : octet_load_options {
  LoadOptions() : octet_load_options(OCTET_LOAD_OPTIONS_INIT) {}
};
struct PreparedWeights : octet_prepared_weights {
  PreparedWeights() : octet_prepared_weights(OCTET_PREPARED_WEIGHTS_INIT) {}
};
struct Call : octet_call {
  Call() : octet_call(OCTET_CALL_INIT) {}
};

// A view of the caller's bytes; at most OCTET_MAX_RANK dimensions are taken over, more are refused by the call.
inline octet_tensor tensor(const char* name, octet_dtype dtype, std::span<const int64_t> dims,
                           const void* data) {
  octet_tensor t = OCTET_TENSOR_NONE;
  t.name = name;
  t.dtype = dtype;
  t.rank = static_cast<int32_t>(dims.size());
  for (size_t i = 0; i < dims.size() && i < OCTET_MAX_RANK; ++i) t.dims[i] = dims[i];
  t.data = data;
  return t;
}
inline octet_tensor tensor(const char* name, octet_dtype dtype, std::initializer_list<int64_t> dims,
                           const void* data) {
  return tensor(name, dtype, std::span(dims.begin(), dims.size()), data);
}

// An octet handle that frees itself.
template <class T, void (*kFree)(T*)>
struct HandleDeleter {
  void operator()(T* handle) const { kFree(handle); }
};
template <class T, void (*kFree)(T*)>
using Handle = std::unique_ptr<T, HandleDeleter<T, kFree>>;

// Threads of the library's own. 0: as many as the process may run on.
class Pool {
 public:
  static Result<Pool> create(int num_threads = 0) {
    octet_pool* pool = nullptr;
    const octet_status code = octet_pool_create(num_threads, &pool);
    if (code != OCTET_OK) return to_status(code);
    return Pool(pool);
  }
  const octet_executor* executor() const { return octet_pool_executor(handle_.get()); }
  int num_threads() const { return executor()->num_threads; }

 private:
  explicit Pool(octet_pool* pool) : handle_(pool) {}
  Handle<octet_pool, octet_pool_destroy> handle_;
};

// Memory for calls, aligned as they want it, uninitialised.
class Workspace {
 public:
  explicit Workspace(size_t bytes)
      : bytes_(bytes), data_(static_cast<std::byte*>(::operator new(bytes, kAlignment))) {}
  std::byte* data() const { return data_.get(); }
  size_t size() const { return bytes_; }
  operator std::span<std::byte>() const {
    return {data(), size()};
  }  // NOLINT(google-explicit-constructor)

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, kAlignment); }
  };
  size_t bytes_;
  std::unique_ptr<std::byte, Free> data_;
};

class Layer {
 public:
  // The tensors outlive the layer.
  static Result<Layer> bind(const octet_prepared_weights& weights) {
    octet_layer* layer = nullptr;
    const octet_status code = octet_layer_bind(&weights, &layer);
    if (code != OCTET_OK) return to_status(code);
    return Layer(layer);
  }

  octet_layer_info info() const {
    octet_layer_info info = OCTET_LAYER_INFO_INIT;
    static_cast<void>(octet_layer_get_info(handle_.get(), &info));  // cannot fail with our handle
    return info;
  }
  // Which kernel, and why not each of the others: a line each.
  std::string explain() const {
    size_t needed = 0;
    static_cast<void>(octet_layer_explain(handle_.get(), nullptr, 0, &needed));
    std::string text(needed, '\0');
    if (octet_layer_explain(handle_.get(), text.data(), text.size(), &needed) != OCTET_OK)
      return {};
    text.pop_back();  // the NUL
    return text;
  }
  Result<size_t> workspace_bytes(int64_t tokens, int num_threads = 1, int64_t top_k = 0) const {
    size_t bytes = 0;
    const octet_status code =
        octet_layer_workspace_bytes(handle_.get(), tokens, top_k, num_threads, &bytes);
    if (code != OCTET_OK) return to_status(code);
    return bytes;
  }
  Status accepts(const octet_tensor& x) const {
    return to_status(octet_layer_accepts(handle_.get(), &x));
  }
  // `executor` null: the calling thread.
  Status run(const octet_call& call, std::span<std::byte> workspace,
             const octet_executor* executor = nullptr) const {
    return to_status(
        octet_layer_run(handle_.get(), &call, workspace.data(), workspace.size(), executor));
  }
  // Of a layer on a CUDA device; `top_k` 0: the layer's.
  Result<size_t> device_workspace_bytes(int64_t tokens, int64_t top_k = 0) const {
    size_t bytes = 0;
    const octet_status code =
        octet_layer_device_workspace_bytes(handle_.get(), tokens, top_k, &bytes);
    if (code != OCTET_OK) return to_status(code);
    return bytes;
  }
  // Pointers are device memory; `stream` is a cudaStream_t.
  Status enqueue(const octet_call& call, std::span<std::byte> workspace, void* stream) const {
    return to_status(
        octet_layer_enqueue(handle_.get(), &call, workspace.data(), workspace.size(), stream));
  }
  const octet_layer* get() const { return handle_.get(); }

 private:
  friend class Model;
  explicit Layer(octet_layer* layer) : handle_(layer) {}
  Handle<octet_layer, octet_layer_free> handle_;
};

// The ranks' y, added in rank order: octet_enqueue_rank_sum.
inline Status enqueue_rank_sum(void* comm, std::span<octet_bf16> partials, std::span<octet_bf16> y,
                               void* stream) {
  return to_status(octet_enqueue_rank_sum(comm, partials.data(), static_cast<int64_t>(y.size()),
                                          y.data(), stream));
}

class Model {
 public:
  static Result<Model> open(const std::string& path) {
    octet_model* model = nullptr;
    const octet_status code = octet_model_open(path.c_str(), &model);
    if (code != OCTET_OK) return to_status(code);
    return Model(model);
  }
  std::string_view format() const { return octet_model_format(handle_.get()); }
  // The model's own indices of its MoE layers, ascending.
  std::vector<int64_t> layers() const {
    std::vector<int64_t> indices(static_cast<size_t>(octet_model_num_layers(handle_.get())));
    for (size_t i = 0; i < indices.size(); ++i) {
      static_cast<void>(
          octet_model_layer_index(handle_.get(), static_cast<int64_t>(i), &indices[i]));
    }
    return indices;
  }
  Result<Layer> load(int64_t layer_index, const octet_load_options& options = LoadOptions(),
                     const octet_executor* executor = nullptr) const {
    octet_layer* layer = nullptr;
    const octet_status code =
        octet_layer_load(handle_.get(), layer_index, &options, executor, &layer);
    if (code != OCTET_OK) return to_status(code);
    return Layer(layer);
  }

 private:
  explicit Model(octet_model* model) : handle_(model) {}
  Handle<octet_model, octet_model_close> handle_;
};

// The results of an operation, in the order of their names.
class Tensors {
 public:
  size_t size() const { return octet_tensors_count(handle_.get()); }
  octet_tensor operator[](size_t index) const {  // index < size()
    octet_tensor tensor = OCTET_TENSOR_NONE;
    static_cast<void>(octet_tensors_get(handle_.get(), index, &tensor));
    return tensor;
  }
  // Name and data are null if there is no such result.
  octet_tensor find(std::string_view name) const {
    for (size_t i = 0; i < size(); ++i) {
      if ((*this)[i].name == name) return (*this)[i];
    }
    return OCTET_TENSOR_NONE;
  }

 private:
  friend Result<Tensors> op(const char*, std::span<const octet_tensor>,
                            std::span<const octet_setting>, const char*, const octet_executor*);
  explicit Tensors(octet_tensors* tensors) : handle_(tensors) {}
  Handle<octet_tensors, octet_tensors_free> handle_;
};

// One operation by its name; `backend` null: auto.
inline Result<Tensors> op(const char* name, std::span<const octet_tensor> inputs,
                          std::span<const octet_setting> settings = {},
                          const char* backend = nullptr, const octet_executor* executor = nullptr) {
  octet_tensors* tensors = nullptr;
  const octet_status code = octet_op(name, inputs.data(), inputs.size(), settings.data(),
                                     settings.size(), backend, executor, &tensors);
  if (code != OCTET_OK) return to_status(code);
  return Tensors(tensors);
}

// The kernels of this build, best first.
inline std::vector<std::string_view> kernel_names() {
  std::vector<std::string_view> names;
  for (int i = 0; i < octet_kernel_count(); ++i) names.emplace_back(octet_kernel_name(i));
  return names;
}

}  // namespace octet::api
