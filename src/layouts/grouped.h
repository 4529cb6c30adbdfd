// SPDX-License-Identifier: Apache-2.0
// The grouped MoE's w1: 64 rows of up, then the 64 rows of gate that belong to them, no shuffle. Scales are E4M3 in
// 128x4 an expert. semantics.md section 10.
#pragma once

#include <cstdint>

#include "layouts/prepared.h"

namespace octet::layouts {

constexpr int64_t kGroupRows = 64;

// Rows of a route tile in grouped_moe, by the number of tokens: what sizes its y and orders its rows. semantics.md section
// 10, tactics.
constexpr int64_t grouped_tile(int64_t tokens) {
  return tokens >= 2048 ? 128 : tokens >= 512 ? 32 : 8;
}

constexpr int64_t grouped_stored_row(W13Row row) {
  return row.column / kGroupRows * 2 * kGroupRows + (row.is_gate ? kGroupRows : 0) +
         row.column % kGroupRows;
}
constexpr W13Row grouped_logical_row(int64_t stored) {
  return {stored / (2 * kGroupRows) * kGroupRows + stored % kGroupRows,
          stored % (2 * kGroupRows) >= kGroupRows};
}

}  // namespace octet::layouts
