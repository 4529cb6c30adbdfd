// SPDX-License-Identifier: Apache-2.0
// Where sums lie: in tensor memory, and in the lanes that store them. For host and device.
#pragma once

#include <cstdint>

#include "cuda/prepared_order.h"
#include "sm100/gemm_plan.h"

namespace octet::sm100 {

// Which of the two sums a CTA's item number `turn` has, and the parity of its phase.
OCTET_HOST_DEVICE constexpr int sums_of(int turn) { return turn % kSumStages; }
OCTET_HOST_DEVICE constexpr uint32_t sums_parity(int turn) {
  return static_cast<uint32_t>(turn / kSumStages) & 1U;
}

// What ptx::load_eight_columns() gives lane `lane` of the warp with lanes 32 `quarter` ... of tensor memory, in register `i`.
struct SumPlace {
  int stored_row, column;  // of the item's 128 weight rows; of its eight tokens or rows
};
OCTET_HOST_DEVICE constexpr SumPlace sum_place(int quarter, int lane, int i) {
  return {quarter * 32 + lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2};
}
// By semantics.md section 6, sums 0 and 1 are up of one column of h, 2 and 3 its gate, 4 to 7 likewise of the next one. The first, of 64:
OCTET_HOST_DEVICE constexpr int hidden_column(int quarter, int lane) {
  return quarter * 16 + lane / 4 * 2;
}
// Of w2, sums 0 and 1 are one column of a row, 2 and 3 the next one, and so on. The first, of 128:
OCTET_HOST_DEVICE constexpr int row_column(int quarter, int lane) {
  return quarter * 32 + lane / 4 * 4;
}

}  // namespace octet::sm100
