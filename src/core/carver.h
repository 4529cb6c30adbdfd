// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/shape.h"

namespace octet {

// Hands out pieces of `base`, each aligned as `base` is to kAlignment bytes, or only counts them where it is null.
template <int64_t kAlignment>
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}
  template <class T>
  T* take(int64_t count) {
    T* piece = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + bytes_);
    // NOLINTNEXTLINE(bugprone-sizeof-expression): some pieces are lists of pointers
    bytes_ += round_up(count * static_cast<int64_t>(sizeof(T)), kAlignment);
    return piece;
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  int64_t bytes_ = 0;
};

}  // namespace octet
