// SPDX-License-Identifier: Apache-2.0
// In which order a CTA works, and where its sums lie: what all roles must agree on. For host and device.
#pragma once

#include <cstdint>

#include "sm100/descriptors.h"
#include "sm100/gemm_plan.h"

namespace octet::sm100 {

// A place in the ring of stages: the parity is that of the phase in which it is filled.
struct RingPlace {
  int stage = 0;
  uint32_t parity = 0;
  OCTET_SM100_BOTH constexpr void next(int stages) {
    if (++stage < stages) return;
    stage = 0;
    parity ^= 1U;
  }
};

// A CTA's items, one after the other: item i is block i % blocks of tile i / blocks, and CTA b of G has b, b + G, ...
class Items {
 public:
  int tile = 0, block = 0;
  int turn = -1;  // how many came before

  OCTET_SM100_BOTH constexpr Items(int cta, int ctas, int tiles, int blocks)
      : item_(cta - ctas), step_(ctas), count_(tiles * blocks), blocks_(blocks) {}
  // False: there is none left.
  OCTET_SM100_BOTH constexpr bool next() {
    item_ += step_;
    ++turn;
    if (item_ >= count_) return false;
    tile = item_ / blocks_;
    block = item_ - tile * blocks_;
    return true;
  }
  // Which of the two sums, and the parity of its phase.
  OCTET_SM100_BOTH constexpr int sums() const { return turn % kSumStages; }
  OCTET_SM100_BOTH constexpr uint32_t sums_parity() const {
    return static_cast<uint32_t>(turn / kSumStages) & 1U;
  }

 private:
  int item_, step_, count_, blocks_;
};

// What ptx::load_eight_columns() gives lane `lane` of the warp with lanes 32 `quarter` ... of tensor memory, in register `i`.
struct SumPlace {
  int stored_row, column;  // of the item's 128 weight rows; of its eight tokens or rows
};
OCTET_SM100_BOTH constexpr SumPlace sum_place(int quarter, int lane, int i) {
  return {quarter * 32 + lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2};
}
// By semantics.md section 6, sums 0 and 1 are up of one column of h, 2 and 3 its gate, 4 to 7 likewise of the next one. The first, of 64:
OCTET_SM100_BOTH constexpr int hidden_column(int quarter, int lane) {
  return quarter * 16 + lane / 4 * 2;
}
// Of w2, sums 0 and 1 are one column of a row, 2 and 3 the next one, and so on. The first, of 128:
OCTET_SM100_BOTH constexpr int row_column(int quarter, int lane) {
  return quarter * 32 + lane / 4 * 4;
}

}  // namespace octet::sm100
