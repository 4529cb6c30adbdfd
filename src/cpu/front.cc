// SPDX-License-Identifier: Apache-2.0
#include <cassert>

#include "cpu/ops.h"
#include "routing/record.h"

namespace octet::cpu {

void front(const FrontArgs& args, Executor& executor) {
  assert(args.quantize.layout == ScaleLayout::kLinear);
  topk(args.topk, executor);
  mxfp8_quantize(args.quantize, executor);
  routing::route({.topk_ids = {.data = args.topk.topk_ids, .is_i64 = false},
                  .tokens = args.topk.tokens,
                  .top_k = args.topk.router.top_k,
                  .experts = args.topk.experts,
                  .permuted = args.permuted,
                  .record = args.record});
}

}  // namespace octet::cpu
