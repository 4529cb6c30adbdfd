// SPDX-License-Identifier: Apache-2.0
// Tensors as files and named operations know them: dtype, shape, row-major contiguous bytes.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace octet {

using Dims = std::vector<int64_t>;

int64_t num_elems(const Dims& dims);      // the product; 1 for a scalar
std::string to_string(const Dims& dims);  // "[2, 64]"

// Somebody else's bytes.
struct TensorView {
  Dtype dtype = Dtype::kU8;
  Dims dims;
  const std::byte* data = nullptr;

  size_t num_bytes() const { return static_cast<size_t>(num_elems(dims)) * dtype_bytes(dtype); }
  int64_t dim(size_t axis) const { return dims.at(axis); }
  template <class T>
  const T* as() const {
    assert(sizeof(T) == dtype_bytes(dtype));
    return reinterpret_cast<const T*>(data);
  }
};

// Bytes of its own, aligned to kTensorAlignment and zeroed.
inline constexpr size_t kTensorAlignment = 64;

class Tensor {
 public:
  Tensor() = default;
  Tensor(Dtype dtype, Dims dims);

  Dtype dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  size_t num_bytes() const { return view().num_bytes(); }
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  TensorView view() const { return {dtype_, dims_, data_.get()}; }
  template <class T>
  T* as() {
    assert(sizeof(T) == dtype_bytes(dtype_));
    return reinterpret_cast<T*>(data_.get());
  }
  template <class T>
  const T* as() const {
    assert(sizeof(T) == dtype_bytes(dtype_));
    return reinterpret_cast<const T*>(data_.get());
  }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  Dtype dtype_ = Dtype::kU8;
  Dims dims_;
  std::unique_ptr<std::byte[], Free> data_;
};

// The same bytes, aligned: a view into a file may stand anywhere, and as<T>() wants alignment.
Tensor copy_of(const TensorView& view);

using NamedTensors = std::map<std::string, Tensor, std::less<>>;
using NamedViews = std::map<std::string, TensorView, std::less<>>;

}  // namespace octet
