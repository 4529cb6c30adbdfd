// SPDX-License-Identifier: Apache-2.0
#define OCTET_FINALIZE_COLUMNS finalize_columns_portable
#include "cpu/finalize_columns.inc"
#include "cpu/ops.h"
#include "cpu/panel_dot.h"

namespace octet::cpu {

void finalize(const FinalizeArgs& a, Executor& executor) {
#if defined(__x86_64__)
  const auto columns = has_avx2() ? finalize_columns_avx2 : finalize_columns_portable;
#else
  const auto columns = finalize_columns_portable;
#endif
  const int64_t units = ceil_div(a.hidden, kFinalizeColumns);  // a row
  parallel_for(executor, a.tokens * units, [&](int64_t unit, int) {
    const int64_t first = unit % units * kFinalizeColumns;
    columns(a, {unit / units, first, std::min(kFinalizeColumns, a.hidden - first)});
  });
}

}  // namespace octet::cpu
