// SPDX-License-Identifier: Apache-2.0
#include "dispatch/checkpoint_order.h"

#include <memory>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "layouts/panel.h"

namespace octet::dispatch {

checkpoint::LayerTensors unpacked(const checkpoint::LayerTensors& packed, Executor& executor) {
  checkpoint::LayerTensors made = packed;
  const auto experts =
      std::make_shared<std::vector<layouts::UnpackedExpert>>(packed.experts.size());
  parallel_for(executor, std::ssize(*experts), [&](int64_t e, int) {
    (*experts)[static_cast<size_t>(e)] = layouts::unpack_expert(
        packed.packed->sizes, packed.packed->base + e * packed.packed->expert_stride,
        packed.spec.hidden, packed.spec.intermediate);
  });
  for (size_t e = 0; e < experts->size(); ++e) {
    made.experts[e].gate = (*experts)[e].gate.view;
    made.experts[e].up = (*experts)[e].up.view;
    made.experts[e].down = (*experts)[e].down.view;
  }
  made.packed.reset();
  made.keep = std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(
      packed.keep, experts);
  return made;
}

checkpoint::LayerTensors unprepared(const layouts::PreparedTensors& t, const LayerSpec& spec,
                                    Executor& executor) {
  const int64_t e = spec.experts, h = spec.hidden;
  const int64_t width = round_up(spec.intermediate, kMxBlock);  // what is behind I is zero
  struct Copies {
    Tensor gate, up, gate_scale, up_scale, down, down_scale;
  };
  const auto u8 = [&](int64_t rows, int64_t bytes) { return Tensor(Dtype::kU8, {e, rows, bytes}); };
  const auto c = std::make_shared<Copies>(Copies{u8(width, h / 2), u8(width, h / 2),
                                                 u8(width, h / kMxBlock), u8(width, h / kMxBlock),
                                                 u8(h, width / 2), u8(h, width / kMxBlock)});
  layouts::unprepare({.w13 = t.w13.as<uint8_t>(),
                      .w13_scale = t.w13_scale.as<uint8_t>(),
                      .w2 = t.w2.as<uint8_t>(),
                      .w2_scale = t.w2_scale.as<uint8_t>(),
                      .experts = e,
                      .hidden = h,
                      .padded = layouts::padded_intermediate(spec.intermediate),
                      .intermediate = width,
                      .gate = c->gate.as<uint8_t>(),
                      .up = c->up.as<uint8_t>(),
                      .gate_scale = c->gate_scale.as<uint8_t>(),
                      .up_scale = c->up_scale.as<uint8_t>(),
                      .down = c->down.as<uint8_t>(),
                      .down_scale = c->down_scale.as<uint8_t>()},
                     executor);
  checkpoint::LayerTensors made;
  made.spec = spec;
  made.keep = c;
  const auto view = [](const Tensor& codes, const Tensor& scales, int64_t expert, int64_t rows,
                       int64_t cols) {
    const Dims &d = codes.dims(), &s = scales.dims();
    return layouts::WeightView{.codes = codes.as<uint8_t>() + expert * d[1] * d[2],
                               .scales = scales.as<uint8_t>() + expert * s[1] * s[2],
                               .code_stride = d[2],
                               .scale_stride = s[2],
                               .rows = rows,
                               .cols = cols};
  };
  for (int64_t i = 0; i < e; ++i) {
    layouts::ExpertWeights& w = made.experts.emplace_back();
    w.gate = view(c->gate, c->gate_scale, i, spec.intermediate, h);
    w.up = view(c->up, c->up_scale, i, spec.intermediate, h);
    w.down = view(c->down, c->down_scale, i, h, spec.intermediate);
    w.limit = t.clamp.as<float>()[i];
  }
  return made;
}

}  // namespace octet::dispatch
