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

// The numbers that such a row means times kMxfp8Hold, exact: out [width]. A scale of 255 is NaN.
//
// Held so, every MXFP8 number has its exact binary32 value, from 2^-144 to 448 * 2^119; as it is, 448 under
// scale code 254 would be infinite, and NaN against a weight of 0. Accumulators are then divided by kMxfp8Hold, once.
constexpr float kMxfp8Hold = 0x1p-8F;
void dequantize_mxfp8_row(const uint8_t* codes, const uint8_t* scales, int64_t width, float* out);

}  // namespace octet::cpu
