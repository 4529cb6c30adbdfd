// SPDX-License-Identifier: Apache-2.0
// grouped_moe: NVFP4 weights times BF16 activations, unweighted rows in permuted order. semantics.md sections 9 and 10.
#include <vector>

#include "formats/bf16.h"
#include "reference/decode.h"
#include "reference/index.h"
#include "reference/reference.h"
#include "reference/swiglu.h"

namespace octet::reference {
namespace {

// Rows of a route tile by token count.
int64_t route_tile(int64_t tokens) { return tokens >= 2048 ? 128 : tokens >= 512 ? 32 : 8; }

// Stored row n of expert e in w [E, rows, cols / 2], scales in 128x4 an expert.
struct GroupedMatrix {
  const uint8_t* w;
  const uint8_t* scales;
  int64_t rows, cols;
  void decode(int64_t e, int64_t n, double* out) const {
    const int64_t blocks = cols / kNvBlock;
    const uint8_t* expert_scales = scales + e * scale_size(ScaleLayout::k128x4, rows, blocks);
    decode_row(
        WeightFormat::kNvfp4, w + (e * rows + n) * (cols / 2), 0, cols,
        [&](int64_t b) { return expert_scales[scale_index(ScaleLayout::k128x4, blocks, n, b)]; },
        out);
  }
};

void sort_slots(const GroupedMoeArgs& args) {
  const int64_t slots = args.tokens * args.top_k;
  const int64_t tile = route_tile(args.tokens);
  const int64_t tiles = most_tiles(slots, args.experts, tile);
  std::vector<int32_t> expert(tiles);
  std::vector<int32_t> limit(tiles);
  std::vector<int32_t> permuted_to_expanded(tiles * tile);
  int32_t num_tiles = 0;
  moe_sort({.topk_ids = {args.topk_ids, false},
            .tokens = args.tokens,
            .top_k = args.top_k,
            .tile = tile,
            .local_offset = 0,
            .local_experts = args.experts,
            .tile_to_expert = expert.data(),
            .tile_to_mn_limit = limit.data(),
            .expanded_to_permuted = args.expanded_to_permuted,
            .permuted_to_expanded = permuted_to_expanded.data(),
            .num_tiles = &num_tiles});
}

using Matrix = std::vector<std::vector<double>>;  // a row a slot

Matrix x_of_slots(const GroupedMoeArgs& args, const std::vector<int64_t>& slots) {
  Matrix x;
  for (const int64_t slot : slots) {
    const Bf16* row = args.x + slot / args.top_k * args.hidden;
    std::vector<double> v(args.hidden);
    for (int64_t k = 0; k < args.hidden; ++k) v[k] = formats::bf16_to_f32(row[k]);
    x.push_back(std::move(v));
  }
  return x;
}

// bf16(up * silu(gate)), one rounding, no clamp.
Matrix hidden_rows(const GroupedMoeArgs& args, int64_t e, const Matrix& x) {
  const GroupedMatrix w1{args.w1, args.w1_sf, 2 * args.intermediate, args.hidden};
  const double alpha = args.w1_alpha[e];
  Matrix h(x.size(), std::vector<double>(args.intermediate));
  std::vector<double> up(args.hidden);
  std::vector<double> gate(args.hidden);
  for (int64_t c = 0; c < args.intermediate; ++c) {
    w1.decode(e, grouped_up_row(c), up.data());
    w1.decode(e, grouped_gate_row(c), gate.data());
    for (size_t r = 0; r < x.size(); ++r) {
      h[r][c] = bf16_round(swiglu(dot(x[r].data(), up.data(), args.hidden) * alpha,
                                  dot(x[r].data(), gate.data(), args.hidden) * alpha, Swiglu{}));
    }
  }
  return h;
}

void expert_rows(const GroupedMoeArgs& args, int64_t e, const std::vector<int64_t>& slots) {
  const Matrix h = hidden_rows(args, e, x_of_slots(args, slots));
  const GroupedMatrix w2{args.w2, args.w2_sf, args.hidden, args.intermediate};
  std::vector<double> down(args.intermediate);
  for (int64_t n = 0; n < args.hidden; ++n) {
    w2.decode(e, n, down.data());
    for (size_t r = 0; r < slots.size(); ++r) {
      const int64_t row = args.expanded_to_permuted[slots[r]];
      args.y[row * args.hidden + n] = formats::bf16_from_f64(
          dot(h[r].data(), down.data(), args.intermediate) * args.w2_alpha[e]);
    }
  }
}

}  // namespace

void grouped_moe(const GroupedMoeArgs& args) {
  sort_slots(args);
  for (int64_t e = 0; e < args.experts; ++e) {
    std::vector<int64_t> slots;
    for (int64_t slot = 0; slot < args.tokens * args.top_k; ++slot) {
      if (args.topk_ids[slot] == e) slots.push_back(slot);
    }
    if (!slots.empty()) expert_rows(args, e, slots);
  }
}

}  // namespace octet::reference
