// SPDX-License-Identifier: Apache-2.0
// h through MXFP8: semantics.md section 7. From float64 to binary32 once, subnormals flushed, blocks of 32 that count
// from the rank's own column 0.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/span.h"

namespace octet::reference {

// One block of 32: its codes, and the scale code as the result.
uint8_t quantize_h_block(const double* h, uint8_t* codes);

// A whole row as numbers. Where a block's scale is in doubt, or an element stands next to a tie, the interval holds
// every outcome. Columns that fill the last block count as 0.
std::vector<Span> h_mxfp8(std::vector<Span> h);

}  // namespace octet::reference
