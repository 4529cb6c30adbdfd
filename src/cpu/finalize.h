// SPDX-License-Identifier: Apache-2.0
// The weighted sum of one token's rows over a few columns: what finalize hands out as one unit of work.
//
//   acc = 0;  for j ascending, skipping slots below 0:  acc = fma(w[j], rows[permuted[j]][c], acc)
//   y[c] = bf16(shared ? fma(acc, scale, shared[c]) : acc * scale)
//
// One source (finalize_columns.inc) for two instruction sets; fma is one rounding in both, so the bytes are the same.
// Source: semantics.md section 8. Truth: reference/reference.h.
#pragma once

#include <cstdint>

#include "core/op_args.h"

namespace octet::cpu {

// Columns first ... first + count - 1 of row `token` of args.y; count <= kFinalizeColumns.
constexpr int64_t kFinalizeColumns = 512;
struct FinalizeUnit {
  int64_t token, first, count;
};
void finalize_columns_portable(const FinalizeArgs& args, FinalizeUnit unit);
void finalize_columns_avx2(const FinalizeArgs& args, FinalizeUnit unit);  // x86-64 only

}  // namespace octet::cpu
