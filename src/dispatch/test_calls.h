// SPDX-License-Identifier: Apache-2.0
// For tests of the layer: a call on poisoned memory and all that it answers.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/tensor.h"
#include "dispatch/layer.h"

namespace octet::dispatch {

// A layer's answer; every byte was 0xFF before.
struct Answer {
  Status status;
  std::vector<Bf16> y, rows;
  std::vector<int32_t> ids, permuted;
  std::vector<float> weights, logits;
  bool untouched() const {
    const auto poisoned = [](const auto& v) {
      const auto* bytes = reinterpret_cast<const uint8_t*>(v.data());
      return std::all_of(bytes, bytes + v.size() * sizeof(v[0]),
                         [](uint8_t b) { return b == 0xFF; });
    };
    return poisoned(y) && poisoned(rows) && poisoned(ids) && poisoned(permuted) &&
           poisoned(weights) && poisoned(logits);
  }
};

template <class T>
void poison(std::vector<T>& v, int64_t count) {
  v.resize(static_cast<size_t>(count));
  if (count > 0) std::memset(v.data(), 0xFF, v.size() * sizeof(T));  // data() of none may be null
}

// `call` with all outputs wanted (rows and logits only where they are possible).
inline Answer run(const Layer& layer, LayerCall call, Executor& executor) {
  const LayerSpec& spec = layer.spec();
  const int64_t top_k = call.given_top_k != 0 ? call.given_top_k : spec.router.top_k;
  const bool has_rows = layer.selection().kernel->isa != Isa::kReference;
  Answer a;
  poison(a.y, call.tokens * spec.hidden);
  poison(a.ids, call.tokens * top_k);
  poison(a.weights, call.tokens * top_k);
  poison(a.rows, has_rows ? call.tokens * top_k * spec.hidden : 0);
  poison(a.permuted, has_rows ? call.tokens * top_k : 0);
  poison(a.logits, call.given_ids.data == nullptr ? call.tokens * spec.experts : 0);
  call.y = a.y.data();
  call.topk_ids = a.ids.data();
  call.topk_weights = a.weights.data();
  if (has_rows) {
    call.rows = a.rows.data();
    call.permuted = a.permuted.data();
  }
  if (call.given_ids.data == nullptr) call.logits_out = a.logits.data();
  const int64_t bytes = layer.workspace_bytes(call.tokens, top_k, executor.num_threads());
  Tensor workspace(Dtype::kU8, {bytes});
  std::memset(workspace.data(), 0xFF, static_cast<size_t>(bytes));
  a.status = layer.run(call, workspace.data(), bytes, executor);
  return a;
}

}  // namespace octet::dispatch
