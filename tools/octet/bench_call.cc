// SPDX-License-Identifier: Apache-2.0
#include "bench_call.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "formats/bf16.h"

namespace octet::tools {

BenchCall::BenchCall(const dispatch::Layer& layer, Pattern made, int threads, Random& random)
    : layer_(layer),
      pattern_(std::move(made)),
      x_(gaussian_rows(pattern_.tokens, layer.spec().hidden, random)),
      weights_(Dtype::kF32, {pattern_.tokens, pattern_.top_k}),
      y_(Dtype::kBf16, x_.dims()),
      out_ids_(Dtype::kI32, weights_.dims()),
      out_weights_(Dtype::kF32, weights_.dims()),
      workspace_(Dtype::kU8, {layer.workspace_bytes(pattern_.tokens, pattern_.top_k, threads)}) {
  for (int64_t i = 0; i < num_elems(weights_.dims()); ++i) {
    weights_.as<float>()[i] =
        static_cast<float>(random.uniform() / static_cast<double>(pattern_.top_k));
  }
}

Tensor BenchCall::ids_at(const std::vector<int64_t>& order, int64_t next) const {
  Tensor ids(Dtype::kI32, weights_.dims());
  for (size_t i = 0; i < pattern_.labels.size(); ++i) {
    const size_t at = static_cast<size_t>(next + pattern_.labels[i]) % order.size();
    ids.as<int32_t>()[i] = static_cast<int32_t>(layer_.spec().first_expert + order[at]);
  }
  return ids;
}

int64_t BenchCall::bytes_of(const Tensor& ids) const {
  return layer_.bytes_read(ids.as<int32_t>(), num_elems(ids.dims()));
}

CallInput BenchCall::input(const Tensor& ids, int64_t rows) const {
  return {rows, pattern_.top_k, x_.as<Bf16>(), ids.as<int32_t>(), weights_.as<float>()};
}

dispatch::LayerCall BenchCall::call_of(const Tensor& ids, int64_t rows) const {
  dispatch::LayerCall call;
  call.tokens = rows;
  call.x = x_.as<Bf16>();
  call.given_ids = {ids.data(), false};
  call.given_weights = weights_.as<float>();
  call.given_top_k = pattern_.top_k;
  return call;
}

Status BenchCall::run(const Tensor& ids, Executor& executor) {
  dispatch::LayerCall call = call_of(ids, pattern_.tokens);
  call.y = y_.as<Bf16>();
  call.topk_ids = out_ids_.as<int32_t>();
  call.topk_weights = out_weights_.as<float>();
  return layer_.run(call, workspace_.data(), num_elems(workspace_.dims()), executor);
}

Result<std::vector<double>> BenchCall::unrounded(const Tensor& ids, int64_t rows,
                                                 Executor& executor) {
  const int64_t hidden = layer_.spec().hidden;
  const int64_t slots = rows * pattern_.top_k;
  Tensor out(Dtype::kBf16, {slots, hidden});
  Tensor permuted(Dtype::kI32, {rows, pattern_.top_k});
  dispatch::LayerCall call = call_of(ids, rows);
  call.rows = out.as<Bf16>();
  call.permuted = permuted.as<int32_t>();
  OCTET_RETURN_IF_ERROR(
      layer_.run(call, workspace_.data(), num_elems(workspace_.dims()), executor));
  std::vector<double> y(static_cast<size_t>(rows * hidden));
  for (int64_t slot = 0; slot < slots; ++slot) {
    const int64_t row = permuted.as<int32_t>()[slot];
    if (row < 0) continue;
    const double weight = weights_.as<float>()[slot];
    double* const to = y.data() + slot / pattern_.top_k * hidden;
    for (int64_t c = 0; c < hidden; ++c) {
      to[c] += weight * formats::bf16_to_f32(out.as<Bf16>()[row * hidden + c]);
    }
  }
  return y;
}

// The parts of the file (bench/baselines/peer.h): x, ids, weights, y.
float* BenchCall::shared_part(int64_t elems_before) const {
  return reinterpret_cast<float*>(shared_->data()) + elems_before;
}

const float* BenchCall::peer_y() const {
  return shared_part(num_elems(x_.dims()) + 2 * num_elems(weights_.dims()));
}

Status BenchCall::share() {
  const int64_t elems = num_elems(x_.dims());
  const int64_t slots = num_elems(weights_.dims());
  constexpr auto kBytes = static_cast<int64_t>(sizeof(float));
  OCTET_ASSIGN_OR_RETURN(SharedFile file, SharedFile::make((2 * elems + 2 * slots) * kBytes));
  shared_.emplace(std::move(file));
  float* const x = shared_part(0);
  for (int64_t i = 0; i < elems; ++i) x[i] = formats::bf16_to_f32(x_.as<Bf16>()[i]);
  std::memcpy(shared_part(elems + slots), weights_.data(), weights_.num_bytes());
  return {};
}

Result<double> BenchCall::run(const Tensor& ids, PeerProcess& peer, int threads) {
  const int64_t elems = num_elems(x_.dims());
  auto* const to = reinterpret_cast<int32_t*>(shared_part(elems));
  for (int64_t i = 0; i < num_elems(ids.dims()); ++i) {
    to[i] = ids.as<int32_t>()[i] - static_cast<int32_t>(layer_.spec().first_expert);
  }
  float* const y = shared_part(elems + 2 * num_elems(ids.dims()));
  std::fill(y, y + elems, std::numeric_limits<float>::quiet_NaN());  // so that no answer is seen
  return peer.run({threads, pattern_.tokens, pattern_.top_k, *shared_});
}

}  // namespace octet::tools
