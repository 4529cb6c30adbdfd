// SPDX-License-Identifier: Apache-2.0
#include "bench_accuracy.h"

#include <utility>

#include "compare.h"
#include "formats/bf16.h"
#include "reference/decode.h"
#include "reference/swiglu.h"

namespace octet::tools {
namespace {

using Rows = std::vector<std::vector<double>>;

// out[s][r] = factor * (row r of w) . in[s] + bias, each weight decoded once.
Rows multiply(const layouts::WeightView& w, double factor, const layouts::BiasView& bias,
              const Rows& in) {
  Rows out(in.size(), std::vector<double>(static_cast<size_t>(w.rows)));
  std::vector<double> row(static_cast<size_t>(w.cols));
  for (int64_t r = 0; r < w.rows; ++r) {
    const uint8_t* const scales = w.scales + r * w.scale_stride;
    reference::decode_row(
        w.format, w.codes + r * w.code_stride, w.first_col, w.cols,
        [&](int64_t b) { return scales[b]; }, row.data());
    const double b = bias.data ? formats::bf16_to_f32(bias.data[r * bias.stride]) : 0;
    for (size_t s = 0; s < in.size(); ++s) {
      out[s][static_cast<size_t>(r)] =
          factor * reference::dot(row.data(), in[s].data(), w.cols) + b;
    }
  }
  return out;
}

// What expert e makes of the rows that chose it.
Rows expert_rows(const layouts::ExpertWeights& e, Swiglu act, const Rows& x) {
  act.limit = e.limit;
  Rows h = multiply(e.up, e.up_alpha, e.up_bias, x);
  const Rows gate = multiply(e.gate, e.gate_alpha, e.gate_bias, x);
  for (size_t s = 0; s < h.size(); ++s) {
    for (size_t c = 0; c < h[s].size(); ++c) {
      h[s][c] = reference::swiglu(h[s][c], gate[s][c], act);
    }
  }
  return multiply(e.down, e.down_alpha, e.down_bias, h);
}

}  // namespace

std::vector<double> exact_layer(const checkpoint::LayerTensors& layer, const CallInput& call,
                                const Progress& progress) {
  const int64_t hidden = layer.spec.hidden;
  ExpertReader experts(layer);
  std::vector<double> y(static_cast<size_t>(call.tokens * hidden));
  for (int64_t e = 0; e < layer.spec.local_experts; ++e) {
    std::vector<int64_t> slots;
    Rows x;
    for (int64_t slot = 0; slot < call.tokens * call.top_k; ++slot) {
      if (call.ids[slot] - layer.spec.first_expert != e) continue;
      slots.push_back(slot);
      const Bf16* const row = call.x + slot / call.top_k * hidden;
      std::vector<double>& wide = x.emplace_back();
      for (int64_t c = 0; c < hidden; ++c) wide.push_back(formats::bf16_to_f32(row[c]));
    }
    if (slots.empty()) continue;
    const Rows out = expert_rows(experts(e), layer.spec.swiglu, x);
    for (size_t s = 0; s < slots.size(); ++s) {
      double* const to = y.data() + slots[s] / call.top_k * hidden;
      const double weight = call.weights[slots[s]];
      for (int64_t c = 0; c < hidden; ++c) to[c] += weight * out[s][static_cast<size_t>(c)];
    }
    if (progress) progress(e, layer.spec.local_experts);
  }
  return y;
}

double nmse(const std::vector<double>& want, const std::function<double(size_t)>& got) {
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double difference = got(i) - want[i];
    error += difference * difference;
    size += want[i] * want[i];
  }
  if (error == 0) return 0;
  return error / size;
}

}  // namespace octet::tools
