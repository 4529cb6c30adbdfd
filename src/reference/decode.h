// SPDX-License-Identifier: Apache-2.0
// Rows of 4-bit weights and 8-bit activations as float64 numbers, exact; and their products.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/shape.h"
#include "formats/e2m1.h"
#include "formats/e4m3.h"
#include "formats/ue8m0.h"

namespace octet::reference {

// Elements first ... first + count - 1 of a row of E2M1 pairs; scale_of(b) is the scale code of block b. The product is a
// binary32 number, so it is infinite from 2^128 on (semantics.md section 1).
template <class ScaleOf>
void decode_row(WeightFormat format, const uint8_t* pairs, int64_t first, int64_t count,
                const ScaleOf& scale_of, double* out) {
  const int64_t block = scale_block(format);
  const int64_t end = first + count;
  for (int64_t begin = first; begin < end;) {
    const int64_t stop = std::min((begin / block + 1) * block, end);
    const uint8_t code = scale_of(begin / block);
    const float scale =
        format == WeightFormat::kMxfp4 ? formats::ue8m0_to_f32(code) : formats::e4m3_to_f32(code);
    for (int64_t k = begin; k < stop; ++k) {
      *out++ = formats::e2m1_to_f32(formats::e2m1_at(pairs, k)) * scale;
    }
    begin = stop;
  }
}

// MXFP8: E4M3 codes with one UE8M0 for 32.
inline double mxfp8_value(uint8_t e4m3, uint8_t ue8m0) {
  return static_cast<double>(formats::e4m3_to_f32(e4m3)) * formats::ue8m0_to_f32(ue8m0);
}

inline double dot(const double* a, const double* b, int64_t k) {
  double sum = 0;
  for (int64_t i = 0; i < k; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace octet::reference
