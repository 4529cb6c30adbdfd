// SPDX-License-Identifier: Apache-2.0
#include "routing/topk.h"

#include "cpu/ops.h"

namespace octet::cpu {

void topk(const TopkArgs& args, Executor& executor) {
  parallel_for(executor, args.tokens, [&](int64_t token, int) { routing::topk(args, token, 1); });
}

}  // namespace octet::cpu
