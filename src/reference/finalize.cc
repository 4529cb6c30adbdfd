// SPDX-License-Identifier: Apache-2.0
// finalize: y = bf16(scale * sum of w_j row_j + shared), slots without a row skipped. semantics.md section 8.
#include "formats/bf16.h"
#include "reference/reference.h"

namespace octet::reference {

void finalize(const FinalizeArgs& args) {
  for (int64_t t = 0; t < args.tokens; ++t) {
    for (int64_t c = 0; c < args.hidden; ++c) {
      double sum = 0;
      for (int64_t slot = t * args.top_k; slot < (t + 1) * args.top_k; ++slot) {
        const int64_t row = args.permuted[slot];
        if (row < 0) continue;
        sum += static_cast<double>(args.topk_weights[slot]) *
               formats::bf16_to_f32(args.rows[row * args.hidden + c]);
      }
      sum *= args.scale;
      if (args.shared != nullptr) sum += formats::bf16_to_f32(args.shared[t * args.hidden + c]);
      args.y[t * args.hidden + c] = formats::bf16_from_f64(sum);
    }
  }
}

}  // namespace octet::reference
