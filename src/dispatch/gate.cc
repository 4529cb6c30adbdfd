// SPDX-License-Identifier: Apache-2.0
#include "dispatch/gate.h"

#include <algorithm>

#include "core/shape.h"
#include "formats/bf16.h"

namespace octet::dispatch {
namespace {

constexpr int kSums = 16;
constexpr int64_t kExpertsPerUnit = 8;

float widened(Bf16 v) { return formats::bf16_to_f32(v); }
float widened(float v) { return v; }

template <class W>
float dot(const Bf16* x, const W* w, int64_t n) {
  float sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (int s = 0; s < kSums; ++s) sums[s] += widened(x[i + s]) * widened(w[i + s]);
  }
  for (int s = 0; i + s < n; ++s) sums[s] += widened(x[i + s]) * widened(w[i + s]);
  for (int half = kSums / 2; half > 0; half /= 2) {
    for (int s = 0; s < half; ++s) sums[s] += sums[s + half];
  }
  return sums[0];
}

float number_at(const TensorView& t, int64_t i) {
  return t.dtype == Dtype::kBf16 ? widened(t.as<Bf16>()[i]) : t.as<float>()[i];
}

}  // namespace

void gate_logits(const GateArgs& a, float* logits, Executor& executor) {
  const int64_t chunks = ceil_div(a.experts, kExpertsPerUnit);
  // A chunk of the gate's rows is read once for all tokens.
  parallel_for(executor, chunks, [&](int64_t chunk, int) {
    const int64_t end = std::min(a.experts, (chunk + 1) * kExpertsPerUnit);
    for (int64_t t = 0; t < a.tokens; ++t) {
      const Bf16* x = a.x + t * a.hidden;
      for (int64_t e = chunk * kExpertsPerUnit; e < end; ++e) {
        float v = a.weight.dtype == Dtype::kBf16
                      ? dot(x, a.weight.as<Bf16>() + e * a.hidden, a.hidden)
                      : dot(x, a.weight.as<float>() + e * a.hidden, a.hidden);
        if (a.logit_bias.data != nullptr) v += number_at(a.logit_bias, e);
        if (a.round_to_bf16) v = widened(formats::bf16_from_f32(v));
        logits[t * a.experts + e] = v;
      }
    }
  });
}

}  // namespace octet::dispatch
