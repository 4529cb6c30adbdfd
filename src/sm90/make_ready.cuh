// SPDX-License-Identifier: Apache-2.0
// Records of x, and workspace that says "not yet": of make_ready and of the experts' kernel.
#pragma once

#include <cstdint>

#include "core/shape.h"
#include "sm90/activation_record.h"
#include "sm90/ptx/relaxed.cuh"

namespace octet::sm90 {

// Eight codes of row `row` from k on, a multiple of 8; with the first eight of a block of 32, its scale.
__device__ __forceinline__ void store_record(uint8_t* x, int rows, int row, int k, uint2 codes,
                                             uint32_t scale_code) {
  ptx::store_relaxed(x + ActivationRecord::code_at(rows, row, k), codes);
  if (k % static_cast<int>(kMxBlock) == 0)
    ptx::store_relaxed(x + ActivationRecord::scale_at(rows, row, k), scale_bits(scale_code));
}

// `bytes`, a multiple of 16, that nobody has handed over; part `thread` of `threads`.
__device__ __forceinline__ void clear_hand_over(uint8_t* at, int64_t bytes, int64_t thread,
                                                int64_t threads) {
  const uint4 none = make_uint4(ptx::kNotYet, ptx::kNotYet, ptx::kNotYet, ptx::kNotYet);
  for (int64_t i = thread; i < bytes / 16; i += threads) reinterpret_cast<uint4*>(at)[i] = none;
}

}  // namespace octet::sm90
