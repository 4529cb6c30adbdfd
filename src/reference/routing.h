// SPDX-License-Identifier: Apache-2.0
// The gate's logits in float64, and the judge of a program's routing: its logits, and the ids and weights that it made of them.
//
//   x, gate ──► gate_logits ──► an interval a logit ◄── the program's logits
//                                                             │ taken as they are
//                                             ids, weights ◄──┴── reference router
//
// Ids and weights are judged from the program's own logits, as y is from its own h: a doubt about a logit then is none about the
// choice. So logits inside their intervals and ids that follow from them are right ids; where they differ from those of the
// float64 logits, two keys stood closer than the logits are known: a tie. Bounds: docs/numerics.md.
#pragma once

#include <cstdint>
#include <vector>

#include "core/gate_args.h"
#include "core/op_args.h"
#include "reference/span.h"

namespace octet::reference {

// [T * E], row-major. Binary32 sums in any order; see sum_error().
std::vector<Span> gate_logits(const GateArgs& args);

// One number that a program made and what was right there; `token` -1: all were.
struct Misfit {
  int64_t token = -1, column = -1;  // column: an expert, or the slot of a row
  double got = 0;
  Span want;
};

struct RoutingVerdict {
  int64_t num_logits = 0, num_logits_outside = 0;  // num_logits 0: they were given
  double worst_logit = 0;  // the largest error of a logit as a share of its bound
  int64_t num_slots = 0, num_ids_wrong = 0, num_weights_outside = 0;
  int64_t num_ties = 0;      // ids that are right, but not those of the reference's own logits
  Misfit logit, id, weight;  // the first of each that is wrong
  bool ok() const { return num_logits_outside + num_ids_wrong + num_weights_outside == 0; }
};

// `topk`: the router and its tensors, and what the program made: logits, topk_ids, topk_weights, which are only read.
// routing::check_topk(topk) is ok.
RoutingVerdict judge_routing(const GateArgs& gate, const TopkArgs& topk);

}  // namespace octet::reference
