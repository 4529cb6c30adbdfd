// SPDX-License-Identifier: Apache-2.0
// h through MXFP8: semantics.md section 7. From float64 to binary32 once, subnormals flushed, blocks of 32 that count
// from the rank's own column 0.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/dtype.h"
#include "reference/span.h"

namespace octet::reference {

// One block of 32: its codes, and the scale code as the result.
uint8_t quantize_h_block(const double* h, uint8_t* codes);

// A whole row as numbers. Where a block's scale is in doubt, or an element stands next to a tie, the interval holds
// every outcome. Columns that fill the last block count as 0.
std::vector<Span> h_mxfp8(std::vector<Span> h);

// One element of h that a kernel made, and what was right there.
struct JudgedElement {
  int64_t column;
  double got;
  Span want;  // under the scale found, if that is a legitimate one
  bool right;
};
using ReportElement = std::function<void(const JudgedElement&)>;

// A row that a kernel made, `codes` one a column and `scales` one a block, judged against h before its rounding, each
// column reported; a block whose scale is not legitimate is wrong in every column. Returns the row as numbers.
std::vector<double> judge_h_mxfp8(std::vector<Span> h, const uint8_t* codes, const uint8_t* scales,
                                  const ReportElement& report);
// The same for a row rounded to BF16.
std::vector<double> judge_h_bf16(const std::vector<Span>& h, const Bf16* rounded,
                                 const ReportElement& report);

}  // namespace octet::reference
