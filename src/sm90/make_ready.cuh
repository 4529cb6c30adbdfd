// SPDX-License-Identifier: Apache-2.0
// What must have happened to workspace and rows before the experts' kernel, by whoever runs before it: each launch begins anew, also after
// one that was broken off.
#pragma once

#include <cstdint>

#include "core/shape.h"
#include "sm90/activation_record.h"
#include "sm90/experts_mxfp8.h"
#include "sm90/ptx/relaxed.cuh"

namespace octet::sm90 {

// Eight codes of row `row` from k on, a multiple of 8; with the first eight of a block of 32, its scale.
__device__ __forceinline__ void store_record(uint8_t* x, int rows, int row, int k, uint2 codes,
                                             uint32_t scale_code) {
  *reinterpret_cast<uint2*>(x + ActivationRecord::code_at(rows, row, k)) = codes;
  if (k % static_cast<int>(kMxBlock) == 0)
    *reinterpret_cast<uint32_t*>(x + ActivationRecord::scale_at(rows, row, k)) =
        scale_bits(scale_code);
}

// Memory that the experts' kernel hands over by value, and its tickets.
struct HandOver {
  uint32_t* tickets;
  uint8_t *h, *rows;  // rows null: y is not wanted
  int64_t h_bytes, rows_bytes;
};
HandOver hand_over_of(const ExpertsArgs& args);
// Part `thread` of `threads`.
__device__ __forceinline__ void clear_hand_over(const HandOver& c, int64_t thread,
                                                int64_t threads) {
  const uint4 none = make_uint4(ptx::kNotYet, ptx::kNotYet, ptx::kNotYet, ptx::kNotYet);
  if (thread == 0) *c.tickets = 0;
  for (int64_t i = thread; i < c.h_bytes / 16; i += threads)
    reinterpret_cast<uint4*>(c.h)[i] = none;
  if (c.rows == nullptr) return;
  for (int64_t i = thread; i < c.rows_bytes / 16; i += threads)
    reinterpret_cast<uint4*>(c.rows)[i] = none;
}

}  // namespace octet::sm90
