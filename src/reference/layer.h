// SPDX-License-Identifier: Apache-2.0
// A whole layer in float64 from ids and weights, each output with the interval of legitimate answers: what `octet check`,
// the demo and the conformance tests compare with. Bounds: semantics.md section 12, derived in docs/numerics.md.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/progress.h"
#include "core/shape.h"
#include "layouts/expert_weights.h"
#include "reference/product.h"
#include "reference/span.h"

namespace octet::reference {

// The h that a kernel made. It is judged element by element, and what follows is computed from it: then the bound of y
// holds no doubt about which way an element of h next to a tie fell.
struct MadeHidden {
  const int32_t* permuted = nullptr;  // [T, k] row of each slot in the tensors below, or -1
  const uint8_t* values = nullptr;    // [N, I] e4m3               mxfp8 activations
  const uint8_t* scales = nullptr;    // [N, ceil(I / 32)] ue8m0
  const Bf16* rounded = nullptr;      // [N, I]                    bf16 activations
};

struct HiddenVerdict {
  int64_t num_elems = 0, num_outside = 0;
  int64_t slot = -1, column = -1;  // of the first element outside
  double got = 0;
  Span want;
};

struct LayerArgs {
  LayerSpec spec;
  int64_t tokens = 0, top_k = 0;
  const Bf16* x = nullptr;  // [T, H]
  const int32_t* topk_ids =
      nullptr;  // [T, k], counted over the whole layer; others contribute nothing
  const float* topk_weights = nullptr;  // [T, k]
  const Bf16* shared = nullptr;         // [T, H] or null
  // Local expert e's matrices.
  std::function<layouts::ExpertWeights(int64_t local_expert)> expert;
  const MadeHidden* made = nullptr;  // null: h is the reference's own, with its doubts
  Sums sums = Sums::kBinary32;       // of the kernel that is judged
};

// y [T * H], row-major; with args.made also what became of h.
std::vector<Span> layer(const LayerArgs& args, const Progress& progress = {},
                        HiddenVerdict* verdict = nullptr);

// How far a result is from its interval: the worst |got - value| / bound over all elements (<= 1: all inside), where it
// is and what stands there. The bound is that of the side on which the result lies, and at least half a BF16 step. NaN is
// right only where the reference is NaN.
struct Worst {
  double share = 0;  // error as a share of its bound; > 1: outside
  int64_t token = 0, column = 0;
  double got = 0;
  Span want;
  int64_t num_outside = 0;
};
Worst compare(const std::vector<Span>& want, const Bf16* got, int64_t tokens, int64_t hidden);

}  // namespace octet::reference
