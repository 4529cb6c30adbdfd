// SPDX-License-Identifier: Apache-2.0
// The checkpoint's own gate: router logits from x.
//
//   logits[t, e] = f32 dot(x[t], weight[e]) + logit_bias[e]
//
// Binary32; product and sum round apart. Column i goes to partial sum i % 16, columns ascending, and the sixteen sums are added
// pairwise: a tree fixed by H alone, so a row's logits do not depend on the other rows or on the threads. Not rounded to BF16
// but for the router `flint`. Source: semantics.md section 11.
#pragma once

#include "core/executor.h"
#include "core/tensor.h"

namespace octet::dispatch {

struct GateArgs {
  const Bf16* x;          // [T, H]
  TensorView weight;      // BF16 or F32 [E, H]
  TensorView logit_bias;  // BF16 or F32 [E]; null data: none
  int64_t tokens, hidden, experts;
  bool round_to_bf16 = false;
  float* logits;  // [T, E]
};
void gate_logits(const GateArgs& args, Executor& executor);

}  // namespace octet::dispatch
