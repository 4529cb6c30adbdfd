// SPDX-License-Identifier: Apache-2.0
// For tests of the operations: named tensors with random contents, inputs of every operation, and what it answers.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "cpu/thread_pool.h"
#include "dispatch/operations.h"
#include "formats/bf16.h"

namespace octet::dispatch {

constexpr int64_t kTokens = 3, kTopK = 2, kExperts = 32, kHidden = 128, kIntermediate = 64;

// Named tensors with random contents and what an operation answers to them.
class Inputs {
 public:
  explicit Inputs(unsigned seed = 1) : rng_(seed) {}

  Tensor& add(const std::string& name, Dtype dtype, const Dims& dims) {
    return tensors_[name] = Tensor(dtype, dims);
  }
  void bytes(const std::string& name, const Dims& dims, int least, int most) {
    Tensor& t = add(name, Dtype::kU8, dims);
    std::generate_n(t.as<uint8_t>(), t.num_bytes(), [&] {
      return static_cast<uint8_t>(least + static_cast<int>(rng_() % (most - least + 1)));
    });
  }
  void bf16(const std::string& name, const Dims& dims) {
    std::normal_distribution<float> normal;
    Tensor& t = add(name, Dtype::kBf16, dims);
    std::generate_n(t.as<Bf16>(), num_elems(dims),
                    [&] { return formats::bf16_from_f32(normal(rng_)); });
  }
  void f32(const std::string& name, const Dims& dims) {
    std::normal_distribution<float> normal;
    Tensor& t = add(name, Dtype::kF32, dims);
    std::generate_n(t.as<float>(), num_elems(dims), [&] { return normal(rng_); });
  }
  void i32(const std::string& name, const Dims& dims, const std::vector<int32_t>& values) {
    std::copy(values.begin(), values.end(), add(name, Dtype::kI32, dims).as<int32_t>());
  }
  void i64(const std::string& name, const Dims& dims, const std::vector<int64_t>& values) {
    std::copy(values.begin(), values.end(), add(name, Dtype::kI64, dims).as<int64_t>());
  }
  void take(NamedTensors outputs) {
    for (auto& [name, tensor] : outputs) tensors_[name] = std::move(tensor);
  }
  void drop(const std::string& name) { tensors_.erase(name); }
  void rename(const std::string& from, const std::string& to) {
    tensors_[to] = std::move(tensors_[from]);
    drop(from);
  }
  Tensor& operator[](const std::string& name) { return tensors_.at(name); }

  NamedViews views() const {
    NamedViews v;
    for (const auto& [name, tensor] : tensors_) v[name] = tensor.view();
    return v;
  }
  Result<NamedTensors> run(std::string_view op, const Settings& settings = {},
                           Backend backend = Backend::kAuto) const {
    cpu::ThreadPool pool(2);
    return run_operation(op, views(), settings, backend, pool);
  }

 private:
  std::mt19937 rng_;
  NamedTensors tensors_;
};

inline Inputs front_inputs() {
  Inputs in;
  in.bf16("x", {kTokens, kHidden});
  in.f32("logits", {kTokens, kExperts});
  in.f32("bias", {kExperts});
  return in;
}

inline Inputs raw_weights() {
  Inputs in(2);
  for (const char* name : {"gate", "up"}) {
    in.bytes(name, {kExperts, kIntermediate, kHidden / 2}, 0, 255);
    in.bytes(std::string(name) + "_scale", {kExperts, kIntermediate, kHidden / 32}, 120, 124);
  }
  in.bytes("down", {kExperts, kHidden, kIntermediate / 2}, 0, 255);
  in.bytes("down_scale", {kExperts, kHidden, kIntermediate / 32}, 120, 124);
  return in;
}

inline const Settings kTop2 = {{"top_k", "2"}};
inline const Settings kI64 = {{"intermediate", "64"}};

// Everything that gemm1, gemm2 and finalize read, made by the operations before them.
inline Inputs chain_inputs() {
  Inputs in = front_inputs();
  in.take(raw_weights().run("prepare", {{"limit", "10"}}).value());
  in.take(in.run("front", kTop2).value());
  in.take(in.run("gemm1", kI64).value());
  in.take(in.run("gemm2").value());
  return in;
}

inline Inputs grouped_inputs() {
  Inputs in(3);
  in.bf16("x", {kTokens, kHidden});
  in.i32("topk_ids", {kTokens, kTopK}, {0, 1, 3, 2, 1, 0});
  in.f32("topk_weights", {kTokens, kTopK});
  in.bytes("w1", {4, 2 * kIntermediate, kHidden / 2}, 0, 255);
  in.bytes("w1_sf", {4, 128 * kHidden / 16}, 0x20, 0x38);
  in.bytes("w2", {4, kHidden, kIntermediate / 2}, 0, 255);
  in.bytes("w2_sf", {4, 128 * kIntermediate / 16}, 0x20, 0x38);
  in.f32("w1_alpha", {4});
  in.f32("w2_alpha", {4});
  return in;
}

inline Inputs sorted_inputs() {
  Inputs in(4);
  in.i32("topk_ids", {kTokens, kTopK}, {0, 1, 3, 2, 1, 0});
  in.bf16("x", {kTokens, kHidden});
  in.take(in.run("moe_sort", {{"experts", "4"}, {"tile", "8"}}).value());
  return in;
}

inline Inputs weight_inputs() {
  Inputs in(5);
  in.f32("value", {2, 3, 64});
  in.bytes("weight", {2, 3, 32}, 0, 255);
  in.bytes("scale", {2, 3, 2}, 120, 130);
  return in;
}

inline const OperationInfo& info_of(std::string_view op) {
  return *std::find_if(operations().begin(), operations().end(),
                       [&](const OperationInfo& i) { return i.name == op; });
}

}  // namespace octet::dispatch
