// SPDX-License-Identifier: Apache-2.0
// Writing activation records, by whoever has quantised x.
#pragma once

#include <cstdint>

#include "core/shape.h"
#include "sm90/activation_record.h"

namespace octet::sm90 {

// Eight codes of row `row` from k on, a multiple of 8; with the first eight of a block of 32, its scale.
__device__ __forceinline__ void store_record(uint8_t* x, int rows, int row, int k, uint2 codes,
                                             uint32_t scale_code) {
  *reinterpret_cast<uint2*>(x + ActivationRecord::code_at(rows, row, k)) = codes;
  if (k % static_cast<int>(kMxBlock) == 0)
    *reinterpret_cast<uint32_t*>(x + ActivationRecord::scale_at(rows, row, k)) =
        scale_bits(scale_code);
}

}  // namespace octet::sm90
