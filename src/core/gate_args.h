// SPDX-License-Identifier: Apache-2.0
// What the checkpoint's own gate makes logits from, once for all backends. What it computes: semantics.md section 11.
#pragma once

#include "core/tensor.h"

namespace octet {

struct GateArgs {
  const Bf16* x = nullptr;  // [T, H]
  TensorView weight = {};  // BF16 or F32 [E, H]; null data: the layer has no gate, logits are given
  TensorView logit_bias = {};  // BF16 or F32 [E]; null data: none
  int64_t tokens = 0, hidden = 0, experts = 0;
  bool round_to_bf16 = false;  // the router flint
};

}  // namespace octet
