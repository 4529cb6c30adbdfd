// SPDX-License-Identifier: Apache-2.0
// One call of an operation: named inputs checked one at a time, settings read as numbers, outputs allocated.
//
//   OCTET_ASSIGN_OR_RETURN(const TensorView x, call.need("x", {Dtype::kBf16}, {"T", "K"}));
//   OCTET_ASSIGN_OR_RETURN(const int64_t top_k, call.integer("top_k", {1, 8}, 6));
//
// Every failure names the tensor or setting, what was found and what was wanted: "x: F32 [2, 64], want BF16 [T, K]".
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/executor.h"
#include "core/op_args.h"
#include "core/tensor.h"
#include "dispatch/operations.h"
#include "octet/status.hpp"

namespace octet::dispatch {

// A wanted dimension: a size, or a letter of core/shape.h for any size.
struct WantedDim {
  WantedDim(int64_t wanted) : size(wanted) {}          // NOLINT(google-explicit-constructor)
  WantedDim(const char* any_size) : name(any_size) {}  // NOLINT(google-explicit-constructor)
  int64_t size = -1;
  const char* name = nullptr;
};

struct IntRange {
  int64_t min, max;
};
constexpr int64_t kMaxSize = int64_t{1} << 31;  // of any integer setting that counts something

class OpCall {
 public:
  OpCall(const OperationInfo& info, const NamedViews& inputs, const Settings& settings,
         Backend backend, Executor& on)
      : executor(on), info_(info), inputs_(inputs), settings_(settings), backend_(backend) {}

  // A tensor that must be there, at an address that is a multiple of kTensorAlignment (copied there if need be).
  Result<TensorView> need(std::string_view name, std::initializer_list<Dtype> dtypes,
                          const std::vector<WantedDim>& dims);
  // The same for any number of dimensions but 0.
  Result<TensorView> need_any_rank(std::string_view name, std::initializer_list<Dtype> dtypes);
  // The same with nothing wanted but presence.
  Result<TensorView> need_any(std::string_view name);
  // Null data if it is not there.
  Result<TensorView> maybe(std::string_view name, std::initializer_list<Dtype> dtypes,
                           const std::vector<WantedDim>& dims);
  bool has(std::string_view name) const { return inputs_.find(name) != inputs_.end(); }

  Result<int64_t> integer(std::string_view key, IntRange range,
                          std::optional<int64_t> otherwise = std::nullopt) const;
  Result<float> number(std::string_view key, std::optional<float> otherwise = std::nullopt) const;
  // One of `names`, as its index.
  Result<size_t> choice(std::string_view key, const std::vector<std::string_view>& names,
                        std::optional<size_t> otherwise = std::nullopt) const;

  // Adds an output of zeros; `culprit` is the tensor or setting that is to blame if it is absurdly large.
  template <class T>
  Result<T*> out(std::string_view name, Dtype dtype, const Dims& dims, std::string_view culprit) {
    OCTET_ASSIGN_OR_RETURN(Tensor * t, allocate(name, dtype, dims, culprit));
    return t->as<T>();
  }
  NamedTensors take_outputs() && { return std::move(outputs_); }

  bool is_reference() const { return backend_ == Backend::kReference; }

  Executor& executor;

 private:
  Result<Tensor*> allocate(std::string_view name, Dtype dtype, const Dims& dims,
                           std::string_view culprit);
  Result<double> real(std::string_view key, std::optional<double> otherwise) const;
  Status missing(std::string_view name, const std::string& want = "") const;
  TensorView aligned(const TensorView& view);

  const OperationInfo& info_;
  const NamedViews& inputs_;
  const Settings& settings_;
  Backend backend_;
  int64_t input_bytes_ = 0;      // of the tensors asked for so far
  int64_t output_bytes_ = 0;     // of the outputs so far
  std::vector<Tensor> aligned_;  // copies of inputs that lay crooked
  NamedTensors outputs_;
};

// "x: K 48, want a multiple of 32"; with 0 refused, unless `least` is 0, "want a positive multiple of 32".
Status check_multiple(std::string_view name, std::string_view what, int64_t found, int64_t of,
                      int64_t least = 1);

inline TokenIds token_ids(const TensorView& view) { return {view.data, view.dtype == Dtype::kI64}; }

// One function an operation, by the family's file.
Status op_mxfp8_quantize(OpCall& call);  // op_front.cc
Status op_topk(OpCall& call);
Status op_route(OpCall& call);
Status op_front(OpCall& call);
Status op_gemm1(OpCall& call);  // op_gemm.cc
Status op_gemm2(OpCall& call);
Status op_finalize(OpCall& call);
Status op_prepare(OpCall& call);  // op_weights.cc
Status op_unprepare(OpCall& call);
Status op_check_weights(OpCall& call);
Status op_dequantize(OpCall& call);
Status op_quantize_weight(OpCall& call);
Status op_moe_sort(OpCall& call);  // op_grouped.cc
Status op_moe_permute(OpCall& call);
Status op_grouped_moe(OpCall& call);

}  // namespace octet::dispatch
