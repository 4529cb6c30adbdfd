// SPDX-License-Identifier: Apache-2.0
// grouped_moe: NVFP4 weights in the grouped order times BF16 activations, rows padded to route tiles.
// semantics.md sections 9 and 10.
#include <functional>
#include <vector>

#include "cpu/expert_gemm.h"
#include "cpu/gather_panel.h"
#include "cpu/ops.h"
#include "cpu/scratch.h"
#include "layouts/grouped.h"
#include "layouts/scale_layout.h"
#include "routing/permute.h"
#include "routing/record.h"

namespace octet::cpu {
namespace {

// Row `row` of [rows, K] codes and 128x4 scales.
const uint8_t* stored_row(const StoredRows& s, const uint8_t* codes, const uint8_t* swizzled,
                          int64_t row, uint8_t* scales) {
  for (int64_t c = 0; c < s.scale_bytes(); ++c)
    scales[c] = swizzled[layouts::scale_offset(ScaleLayout::k128x4, s.scale_bytes(), row, c)];
  return codes + row * s.code_bytes();
}

class GroupedPanels final : public PanelSource {
 public:
  explicit GroupedPanels(const GroupedMoeArgs& args)
      : a_(args),
        w1_{WeightFormat::kNvfp4, args.hidden, args.hidden},
        w2_{WeightFormat::kNvfp4, args.intermediate, args.intermediate},
        sizes_(gathered_sizes(w1_, w2_)) {}

  const layouts::PanelSizes& sizes() const override { return sizes_; }
  ExpertParams params(int64_t e) const override {
    ExpertParams p;
    p.gate_alpha = p.up_alpha = a_.w1_alpha[e];
    p.down_alpha = a_.w2_alpha[e];
    return p;
  }
  int64_t scratch_bytes() const override {
    return std::max(w1_.scratch_bytes(), w2_.scratch_bytes());
  }
  const uint8_t* gate_up_panel(int64_t e, int64_t panel, uint8_t* scratch) const override {
    const int64_t rows = 2 * a_.intermediate;
    const uint8_t* codes = a_.w1 + e * rows * w1_.code_bytes();
    const uint8_t* sf =
        a_.w1_sf + e * layouts::scale_bytes(ScaleLayout::k128x4, rows, w1_.scale_bytes());
    return gather_gate_up(
        w1_, a_.intermediate, panel, scratch, [&](layouts::W13Row row, uint8_t* scales) {
          return stored_row(w1_, codes, sf, layouts::grouped_stored_row(row), scales);
        });
  }
  const uint8_t* down_panel(int64_t e, int64_t panel, uint8_t* scratch) const override {
    const uint8_t* codes = a_.w2 + e * a_.hidden * w2_.code_bytes();
    const uint8_t* sf =
        a_.w2_sf + e * layouts::scale_bytes(ScaleLayout::k128x4, a_.hidden, w2_.scale_bytes());
    return gather_down(w2_, a_.hidden, panel, scratch, [&](int64_t row, uint8_t* scales) {
      return stored_row(w2_, codes, sf, row, scales);
    });
  }

 private:
  GroupedMoeArgs a_;
  StoredRows w1_, w2_;
  layouts::PanelSizes sizes_;
};

// The slots in their padded order: entry i of the lists below has row `row[i]` of y and token `token[i]` of x.
struct SortedSlots {
  std::vector<ExpertRun> runs;
  std::vector<int64_t> row, token;
};

SortedSlots sort_slots(const GroupedMoeArgs& a) {
  const int64_t tile = layouts::grouped_tile(a.tokens);
  const int64_t tiles = routing::max_tiles(a.tokens, a.top_k, a.experts, tile);
  std::vector<int32_t> expert(static_cast<size_t>(tiles));
  std::vector<int32_t> limit(static_cast<size_t>(tiles));
  std::vector<int32_t> slot(static_cast<size_t>(tiles * tile));
  int32_t num_tiles = 0;
  routing::sort({.topk_ids = {a.topk_ids},
                 .tokens = a.tokens,
                 .top_k = a.top_k,
                 .tile = tile,
                 .local_offset = 0,
                 .local_experts = a.experts,
                 .tile_to_expert = expert.data(),
                 .tile_to_mn_limit = limit.data(),
                 .expanded_to_permuted = a.expanded_to_permuted,
                 .permuted_to_expanded = slot.data(),
                 .num_tiles = &num_tiles});
  SortedSlots sorted;
  for (size_t t = 0; t < static_cast<size_t>(num_tiles); ++t) {
    if (t == 0 || expert[t] != expert[t - 1])
      sorted.runs.push_back({expert[t], std::ssize(sorted.row), 0});
    for (int64_t row = static_cast<int64_t>(t) * tile; row < limit[t]; ++row) {
      sorted.row.push_back(row);
      sorted.token.push_back(slot[static_cast<size_t>(row)] / a.top_k);
      ++sorted.runs.back().count;
    }
  }
  return sorted;
}

}  // namespace

void grouped_moe(const GroupedMoeArgs& a, PanelDot dot, Executor& executor) {
  const SortedSlots slots = sort_slots(a);
  const GroupedPanels weights(a);
  PanelScratch scratch(weights, executor);
  const auto num_rows = std::ssize(slots.row);
  const auto x = uninitialised_floats(a.tokens * a.hidden);
  const auto h = uninitialised_floats(num_rows * a.intermediate);
  widen_bf16({a.x, a.tokens, a.hidden}, a.hidden, x.get(), executor);
  const IntegerLayout x_layout{WeightFormat::kNvfp4, kXPlanes, a.hidden / kNvBlock};
  const IntegerLayout h_layout{WeightFormat::kNvfp4, h_planes(Activations::kBf16, a.precision),
                               a.intermediate / kNvBlock};
  const RowDot x_dot = dot.of(WeightFormat::kNvfp4, x_layout.planes);
  std::vector<Hold> token_hold(static_cast<size_t>(a.tokens), Hold::kNone);
  const auto token_of = [&](int64_t i) { return slots.token[static_cast<size_t>(i)]; };
  const IntegerScratch x_integers(x_dot, x_layout, slots.runs,
                                  {.x = x.get(), .rows = a.tokens, .hold = token_hold.data()},
                                  token_of, executor);
  std::vector<Hold> hold;
  std::vector<const float*> x_rows;
  std::vector<float*> h_rows;
  std::vector<Bf16*> y_rows;
  for (int64_t i = 0; i < num_rows; ++i) {
    const int64_t token = token_of(i);
    x_rows.push_back(x.get() + token * a.hidden);
    hold.push_back(token_hold[static_cast<size_t>(token)]);
    h_rows.push_back(h.get() + i * a.intermediate);
    y_rows.push_back(a.y + slots.row[static_cast<size_t>(i)] * a.hidden);
  }
  ProductArgs product{.weights = &weights,
                      .dot = x_dot,
                      .runs = slots.runs,
                      .x = x_rows.data(),
                      .integers = x_integers.rows(),
                      .hold = hold.data(),
                      .scratch = scratch.data()};
  const HiddenArgs hidden{
      .intermediate = a.intermediate, .h = h_rows.data(), .width = a.intermediate};
  gate_up(product, hidden, executor, [&](int64_t row, int64_t col, int64_t count) {
    float* from = h_rows[static_cast<size_t>(row)] + col;
    for (int64_t c = 0; c < count; ++c)
      from[c] = formats::bf16_to_f32(formats::bf16_from_f32(from[c]));
  });
  product.x = h_rows.data();
  product.dot = dot.of(WeightFormat::kNvfp4, h_layout.planes);
  std::fill(hold.begin(), hold.end(), Hold::kNone);
  const IntegerScratch h_integers(product.dot, h_layout, slots.runs,
                                  {.x = h.get(), .rows = num_rows, .hold = hold.data()},
                                  std::identity{}, executor);
  product.integers = h_integers.rows();
  down(product, a.hidden, y_rows.data(), executor);
}

}  // namespace octet::cpu
