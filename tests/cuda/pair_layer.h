// SPDX-License-Identifier: Apache-2.0
// For tests of the experts on a device: random MXFP4 experts, here and in the device's order, and what h and the rows may be.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "cuda/expert_gemm.h"
#include "formats/bf16.h"
#include "formats/e2m1.h"
#include "layouts/expert_weights.h"
#include "layouts/stream_fp4.h"
#include "on_device.h"
#include "reference/decode.h"
#include "reference/hidden.h"
#include "reference/product.h"
#include "reference/swiglu.h"
#include "routing/record.h"

namespace octet::cuda {

struct PairShape {
  int64_t hidden = 256, intermediate = 96, experts = 8;
  bool has_biases = false;
  Swiglu swiglu = {.limit = 10.0F};
  int scale_low = 117, num_scales = 6;  // scale codes of weights
  unsigned seed = 1;
};

inline size_t size_of(int64_t n) { return static_cast<size_t>(n); }

// fn(0) ... fn(count - 1) on the machine's processors.
inline void in_parallel(int64_t count, const std::function<void(int64_t)>& fn) {
  std::atomic<int64_t> next = 0;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back([&] {
      for (int64_t at = next++; at < count; at = next++) fn(at);
    });
  }
  for (std::thread& t : threads) t.join();
}

class PairLayer {
 public:
  explicit PairLayer(const PairShape& of) : shape(of), rng_(of.seed) {
    const int64_t e = shape.experts, h = shape.hidden, i = shape.intermediate;
    gate_ = random_matrix(e * i, h);
    up_ = random_matrix(e * i, h);
    down_ = random_matrix(e * h, i);
    for (int64_t n = 0; n < e; ++n)
      limits.push_back(shape.swiglu.limit / static_cast<float>(1 + n % 3));
    if (shape.has_biases) {
      gate_bias = random_bias(e * i);
      up_bias = random_bias(e * i);
      down_bias = random_bias(e * h);
    }
  }

  layouts::ExpertWeights expert(int64_t e) const {
    const int64_t h = shape.hidden, i = shape.intermediate;
    layouts::ExpertWeights w;
    w.gate = gate_.view.slice_rows(e * i, i);
    w.up = up_.view.slice_rows(e * i, i);
    w.down = down_.view.slice_rows(e * h, h);
    return w;
  }
  std::vector<uint8_t> packed(bool& is_wide) const {
    const layouts::StreamSizes sizes = layouts::stream_sizes(expert(0));
    std::vector<uint8_t> out(size_of(shape.experts * sizes.expert_bytes()));
    std::atomic<bool> wide = false;
    in_parallel(shape.experts, [&](int64_t e) {
      if (layouts::pack_stream_expert(expert(e), layouts::StreamOrder::kE4m3,
                                      out.data() + e * sizes.expert_bytes()) !=
          layouts::StreamScale::kFast)
        wide = true;
    });
    is_wide = wide;
    return out;
  }
  void set_scale(int64_t matrix, int64_t index, uint8_t code) {
    (matrix == 0 ? gate_ : matrix == 1 ? up_ : down_).scales[size_of(index)] = code;
  }

  PairShape shape;
  std::vector<float> limits;
  std::vector<Bf16> gate_bias, up_bias, down_bias;  // empty: none

 private:
  struct Matrix {
    std::vector<uint8_t> codes, scales;
    layouts::WeightView view;
  };
  Matrix random_matrix(int64_t rows, int64_t cols) {
    Matrix m;
    m.codes.resize(size_of(rows * cols / 2));
    m.scales.resize(size_of(rows * cols / kMxBlock));
    for (uint8_t& c : m.codes) c = static_cast<uint8_t>(rng_());
    for (uint8_t& s : m.scales)
      s = static_cast<uint8_t>(shape.scale_low +
                               static_cast<int>(rng_() % static_cast<unsigned>(shape.num_scales)));
    m.view = {.codes = m.codes.data(),
              .scales = m.scales.data(),
              .code_stride = cols / 2,
              .scale_stride = cols / kMxBlock,
              .rows = rows,
              .cols = cols};
    return m;
  }
  std::vector<Bf16> random_bias(int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<Bf16> b(size_of(count));
    for (Bf16& v : b) v = formats::bf16_from_f32(normal(rng_));
    return b;
  }

  std::mt19937 rng_;
  Matrix gate_, up_, down_;
};

// MXFP8 rows and where they go.
struct PairInput {
  int64_t tokens = 0, top_k = 0;
  std::vector<uint8_t> codes, scales;  // [T, H], [T, H/32]
  std::vector<int32_t> ids;            // [T, k]
  std::vector<float> weights;          // [T, k]
};

inline PairInput random_input(const PairShape& shape, int64_t tokens, int64_t top_k,
                              int64_t num_ids, std::mt19937& rng) {
  PairInput in{
      .tokens = tokens, .top_k = top_k, .codes = {}, .scales = {}, .ids = {}, .weights = {}};
  std::normal_distribution<float> normal(0.0F, 100.0F);
  for (int64_t i = 0; i < tokens * shape.hidden; ++i)
    in.codes.push_back(formats::e4m3_from_f32(normal(rng)));
  for (int64_t i = 0; i < tokens * shape.hidden / kMxBlock; ++i)
    in.scales.push_back(static_cast<uint8_t>(118 + rng() % 4));
  std::vector<int32_t> all(size_of(num_ids));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t j = 0; j < top_k; ++j) {
      std::swap(all[size_of(j)], all[size_of(j) + rng() % (all.size() - size_of(j))]);
      in.ids.push_back(all[size_of(j)]);
      in.weights.push_back(static_cast<float>(1 + rng() % 64) / 64.0F);
    }
  }
  return in;
}

// Row t of `in` alone.
inline PairInput row_of(const PairShape& shape, const PairInput& in, int64_t t) {
  const auto part = [&](const auto& v, int64_t width) {
    return std::vector(v.begin() + t * width, v.begin() + (t + 1) * width);
  };
  return {1,
          in.top_k,
          part(in.codes, shape.hidden),
          part(in.scales, shape.hidden / kMxBlock),
          part(in.ids, in.top_k),
          part(in.weights, in.top_k)};
}

// What was found outside its interval.
struct PairVerdict {
  std::atomic<int64_t> h_elems = 0, h_outside = 0, row_elems = 0, rows_outside = 0;
};

// Slot t * k + j's h and row, judged. h: codes and scale codes [slots, I], [slots, I/32]; the rows follow from the h that was found.
inline void judge_pair(const PairLayer& layer, const PairInput& in, const std::vector<uint8_t>& h,
                       const std::vector<uint8_t>& h_scales, const std::vector<Bf16>& rows,
                       PairVerdict& verdict) {
  constexpr auto kSums = reference::Sums::kFp8Unit;
  const int64_t hidden = layer.shape.hidden, inter = layer.shape.intermediate,
                blocks = ceil_div(inter, kMxBlock);
  in_parallel(layer.shape.experts, [&](int64_t e) {
    std::vector<int64_t> slots;
    for (size_t s = 0; s < in.ids.size(); ++s)
      if (in.ids[s] == e) slots.push_back(static_cast<int64_t>(s));
    if (slots.empty()) return;
    const layouts::ExpertWeights w = layer.expert(e);
    const auto bias = [](const std::vector<Bf16>& b, int64_t at) {
      return b.empty() ? 0.0 : static_cast<double>(formats::bf16_to_f32(b[size_of(at)]));
    };
    Swiglu act = layer.shape.swiglu;
    act.limit = layer.limits[size_of(e)];
    std::vector<reference::Activation> x(slots.size());
    for (size_t s = 0; s < slots.size(); ++s) {
      const int64_t t = slots[s] / in.top_k;
      for (int64_t k = 0; k < hidden; ++k)
        x[s].value.push_back(reference::mxfp8_value(
            in.codes[size_of(t * hidden + k)], in.scales[size_of((t * hidden + k) / kMxBlock)]));
    }
    const auto decode = [](const layouts::WeightView& v, int64_t row, std::vector<double>& out) {
      for (int64_t k = 0; k < v.cols; ++k) out[size_of(k)] = v.value(row, k);
    };
    std::vector<std::vector<reference::Span>> want(slots.size());
    std::vector<double> gate(size_of(hidden)), up(size_of(hidden)), down(size_of(inter));
    for (int64_t c = 0; c < inter; ++c) {
      decode(w.gate, c, gate);
      decode(w.up, c, up);
      for (size_t s = 0; s < slots.size(); ++s) {
        reference::Span g = product(x[s], gate.data(), kSums), u = product(x[s], up.data(), kSums);
        if (layer.shape.has_biases) {
          g = reference::shifted(g, bias(layer.gate_bias, e * inter + c));
          u = reference::shifted(u, bias(layer.up_bias, e * inter + c));
        }
        want[s].push_back(reference::swiglu(u, g, act));
      }
    }
    std::vector<reference::Activation> found;
    for (size_t s = 0; s < slots.size(); ++s) {
      found.emplace_back().value = reference::judge_h_mxfp8(
          want[s], h.data() + slots[s] * inter, h_scales.data() + slots[s] * blocks,
          [&](const reference::JudgedElement& j) {
            ++verdict.h_elems;
            if (!j.right && verdict.h_outside++ < 5)
              ADD_FAILURE() << "h, expert " << e << ", slot " << slots[s] << ", column " << j.column
                            << ": got " << j.got << ", want " << j.want.lo << " ... " << j.want.hi;
          });
    }
    for (int64_t n = 0; n < hidden; ++n) {
      decode(w.down, n, down);
      for (size_t s = 0; s < slots.size(); ++s) {
        reference::Span y = product(found[s], down.data(), kSums);
        if (layer.shape.has_biases)
          y = reference::shifted(y, bias(layer.down_bias, e * hidden + n));
        y = reference::closed(reference::bf16_round(y));
        const double got = formats::bf16_to_f32(rows[size_of(slots[s] * hidden + n)]);
        ++verdict.row_elems;
        if (!reference::is_inside(got, y) && verdict.rows_outside++ < 5)
          ADD_FAILURE() << "row, expert " << e << ", slot " << slots[s] << ", column " << n
                        << ": got " << got << ", want " << y.lo << " ... " << y.hi;
      }
    }
  });
}

}  // namespace octet::cuda
