// SPDX-License-Identifier: Apache-2.0
// Random numbers that are the same on every machine and library: splitmix64.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "formats/bf16.h"

namespace octet::tools {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t bits() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }
  // 0 ... n - 1; n is far below 2^32, so the bias is below 2^-32.
  int64_t below(int64_t n) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(n)); }
  // In (0, 1].
  double uniform() { return static_cast<double>((bits() >> 11) + 1) * 0x1p-53; }
  double gaussian() {
    const double radius = std::sqrt(-2.0 * std::log(uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }
  std::vector<int64_t> permutation(int64_t n) {
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[static_cast<size_t>(below(static_cast<int64_t>(i)))]);
    }
    return order;
  }

 private:
  uint64_t state_;
};

// Standard normal rows, BF16 [rows, width].
inline Tensor gaussian_rows(int64_t rows, int64_t width, Random& random) {
  Tensor x(Dtype::kBf16, {rows, width});
  for (int64_t i = 0; i < rows * width; ++i) {
    x.as<Bf16>()[i] = formats::bf16_from_f32(static_cast<float>(random.gaussian()));
  }
  return x;
}

}  // namespace octet::tools
