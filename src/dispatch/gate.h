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
#include "core/gate_args.h"

namespace octet::dispatch {

// logits [T, E] out.
void gate_logits(const GateArgs& args, float* logits, Executor& executor);

}  // namespace octet::dispatch
