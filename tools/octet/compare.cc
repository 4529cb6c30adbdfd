// SPDX-License-Identifier: Apache-2.0
#include "compare.h"

#include <utility>
#include <vector>

#include "formats/bf16.h"
#include "layouts/panel.h"

namespace octet::tools {
ExpertReader::ExpertReader(const checkpoint::LayerTensors& layer) : layer_(layer) {}
ExpertReader::~ExpertReader() = default;

layouts::ExpertWeights ExpertReader::operator()(int64_t local_expert) {
  layouts::ExpertWeights expert = layer_.experts[static_cast<size_t>(local_expert)];
  if (!layer_.packed) return expert;
  auto& slot = unpacked_[local_expert];
  if (!slot) {
    const checkpoint::PackedPanels& p = *layer_.packed;
    slot = std::make_unique<layouts::UnpackedExpert>(
        layouts::unpack_expert(p.sizes, p.base + local_expert * p.expert_stride, layer_.spec.hidden,
                               layer_.spec.intermediate));
  }
  expert.gate = slot->gate.view;
  expert.up = slot->up.view;
  expert.down = slot->down.view;
  return expert;
}

Comparison compare_with_reference(const checkpoint::LayerTensors& layer, const CallView& call,
                                  const Progress& progress) {
  ExpertReader experts(layer);
  reference::LayerArgs args;
  args.spec = layer.spec;
  args.tokens = call.tokens;
  args.top_k = call.top_k;
  args.x = call.x;
  args.topk_ids = call.topk_ids;
  args.topk_weights = call.topk_weights;
  args.expert = [&experts](int64_t local_expert) { return experts(local_expert); };
  args.made = call.made;
  args.sums = call.sums;
  Comparison c;
  const std::vector<reference::Span> want = reference::layer(args, progress, &c.h);
  c.worst = reference::compare(want, call.y, call.tokens, layer.spec.hidden);
  c.num_elems = static_cast<int64_t>(want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    const Bf16 rounded = formats::bf16_from_f64(want[i].value);
    c.num_exact += formats::bf16_to_f32(call.y[i]) == formats::bf16_to_f32(rounded) ? 1 : 0;
  }
  return c;
}

}  // namespace octet::tools
