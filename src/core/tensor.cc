// SPDX-License-Identifier: Apache-2.0
#include "core/tensor.h"

#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <new>
#include <utility>

namespace octet {

int64_t num_elems(const Dims& dims) {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

std::string to_string(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

void Tensor::Free::operator()(std::byte* p) const { std::free(p); }

Tensor::Tensor(Dtype dtype, Dims dims) : dtype_(dtype), dims_(std::move(dims)) {
  size_t bytes = static_cast<size_t>(num_elems(dims_)) * dtype_bytes(dtype_);
  bytes =
      (bytes / kTensorAlignment + 1) * kTensorAlignment;  // never empty, so data() is never null
  auto* p = static_cast<std::byte*>(std::aligned_alloc(kTensorAlignment, bytes));
  if (p == nullptr) throw std::bad_alloc();
  std::memset(p, 0, bytes);
  data_.reset(p);
}

Tensor copy_of(const TensorView& view) {
  Tensor copy(view.dtype, view.dims);
  if (view.num_bytes() != 0) std::memcpy(copy.data(), view.data, view.num_bytes());
  return copy;
}

}  // namespace octet
