// SPDX-License-Identifier: Apache-2.0
// The C interface's plain structs as the library's types. Checks what a caller can get wrong before anything is read.
#pragma once

#include <cstdint>
#include <string_view>

#include "checkpoint/model.h"
#include "core/executor.h"
#include "core/tensor.h"
#include "dispatch/layer.h"
#include "dispatch/operations.h"
#include "dispatch/select.h"
#include "octet/octet.h"
#include "octet/status.hpp"

namespace octet::capi {

// The caller's callback, or the calling thread for NULL.
class CallbackExecutor final : public Executor {
 public:
  static Status check(const octet_executor* executor);
  // `executor` passed check().
  explicit CallbackExecutor(const octet_executor* executor) : executor_(executor) {}
  int num_threads() const override { return executor_ == nullptr ? 1 : executor_->num_threads; }
  void run(int num_tasks, void (*task)(void* arg, int index), void* arg) override;

 private:
  const octet_executor* executor_;
};

// `what` begins the sentences: a tensor's name.
Result<TensorView> to_view(const octet_tensor& tensor, std::string_view what);
// The same of a tensor that must be there; `wanted` is its dtype and shape in words.
Result<TensorView> need_view(const octet_tensor& tensor, std::string_view what,
                             std::string_view wanted);
octet_tensor to_c(const char* name, const TensorView& view);

Result<NamedViews> to_views(const octet_tensor* inputs, size_t count);
Result<dispatch::Settings> to_settings(const octet_setting* settings, size_t count);
// NULL: auto.
Result<Backend> to_backend(const char* name);
Result<dispatch::LayerOptions> to_layer_options(const char* backend, const char* kernel);
Result<dispatch::MemoryOptions> to_memory_options(const octet_load_options& options);
Result<checkpoint::LoadOptions> to_load_options(const octet_load_options& options);
Result<dispatch::PreparedBinding> to_binding(const octet_prepared_weights& weights);
Result<dispatch::LayerCall> to_layer_call(const octet_call& call);
// Whether T and k are in a call's range; k 0 stands for the layer's.
Status check_tokens(int64_t tokens, int64_t top_k);

}  // namespace octet::capi
