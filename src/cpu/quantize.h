// SPDX-License-Identifier: Apache-2.0
// MXFP8 quantisers of one row: the steps that mxfp8_quantize, front, gemm1 and the experts engine share. What a block
// becomes stands in formats/mxfp8.h. Source: semantics.md sections 3 (x) and 7 (h). Truth: reference/reference.h.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace octet::cpu {

// A row of x, section 3: `width` a multiple of 32; codes [width] e4m3, scales_linear [width / 32] ue8m0.
void quantize_x_row(const Bf16* x, int64_t width, uint8_t* codes, uint8_t* scales_linear);

// A row of h, section 7, in blocks of 32 from column 0: codes [width] e4m3, scales [ceil(width / 32)] ue8m0. In a last
// block that is shorter the missing columns count as 0; their codes are not written.
void quantize_h_row(const float* h, int64_t width, uint8_t* codes, uint8_t* scales);

// ---- How a row is held: MXFP8 numbers in binary32, exact; or, of BF16 too, as integers
//
// A number as it is may be 448 under scale code 254, infinite in binary32 (and NaN against a weight of 0); times 2^-8 all
// are finite, but a product with a weight may fall below 2^-149. So the row chooses, by its own codes: a row with a code of
// kHeldFrom or more is held times kMxfp8Hold, and what is summed from it is divided by that, once; any other stands as it
// is. A held row that has a number under a code below kExactBelow too leaves no room for the kernels' own shrinking of
// weights: it goes through those that multiply each weight by its scale first (panel_dot.h). These three are one sum in
// binary32 but for what docs/numerics.md says of its ends. A row that stands as it is may go as integers besides.
constexpr float kMxfp8Hold = 0x1p-8F;
constexpr uint8_t kHeldFrom = 192;  // 448 * 2^65: far above what models have, far below overflow
constexpr uint8_t kExactBelow = 4;  // code 4's least number, held and times 2^-9 (look-up): 2^-149

enum class Hold : uint8_t {
  kNone,      // as they are
  kHeld,      // times kMxfp8Hold
  kExact,     // likewise, and weights times their scales first
  kIntegers,  // as they are, and as integers (integer_rows.h)
};

// Blocks of a row, each as its own code wants it: times kMxfp8Hold from kHeldFrom on. A scale of 255 is NaN.
void dequantize_mxfp8_blocks(const uint8_t* codes, const uint8_t* scales, int64_t width,
                             float* out);
// Once all of a row's blocks are there: brings them to one hold.
Hold settle_mxfp8_row(const uint8_t* scales, int64_t width, float* row);

}  // namespace octet::cpu
