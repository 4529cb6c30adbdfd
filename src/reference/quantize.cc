// SPDX-License-Identifier: Apache-2.0
// mxfp8_quantize: semantics.md section 3.
#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/bf16.h"
#include "formats/mxfp8.h"
#include "reference/index.h"
#include "reference/reference.h"

namespace octet::reference {
namespace {

// The largest magnitude among the numbers of a block; NaN if it has none. Not fmax: a signalling NaN wins there.
float numbers_amax(const Bf16* x) {
  float amax = std::numeric_limits<float>::quiet_NaN();
  for (int64_t i = 0; i < kMxBlock; ++i) {
    const float a = std::fabs(formats::bf16_to_f32(x[i]));
    if (!std::isnan(a) && !(amax >= a)) amax = a;
  }
  return amax;
}

}  // namespace

void mxfp8_quantize(const QuantizeArgs& args) {
  const int64_t blocks = args.width / kMxBlock;
  std::fill_n(args.x_scale, scale_size(args.layout, args.tokens, blocks), uint8_t{0});
  for (int64_t t = 0; t < args.tokens; ++t) {
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t first = t * args.width + b * kMxBlock;
      const uint8_t scale = formats::x_scale_code(numbers_amax(args.x + first));
      args.x_scale[scale_index(args.layout, blocks, t, b)] = scale;
      for (int64_t i = first; i < first + kMxBlock; ++i) {
        args.x_quant[i] = formats::x_code(formats::bf16_to_f32(args.x[i]), scale);
      }
    }
  }
}

}  // namespace octet::reference
