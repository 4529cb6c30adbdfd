// SPDX-License-Identifier: Apache-2.0
// Eight BF16 numbers, one 16-byte access, as binary32.
#pragma once

#include <cuda_bf16.h>

#include "formats/bf16.h"

namespace octet::cuda {

constexpr int kBf16Lanes = 8;

union Bf16Lanes {
  uint4 raw;
  __nv_bfloat162 pairs[4];
};

__device__ __forceinline__ void load_lanes(float (&out)[kBf16Lanes], const Bf16* from) {
  Bf16Lanes v;
  v.raw = *reinterpret_cast<const uint4*>(from);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 two = __bfloat1622float2(v.pairs[i]);
    out[2 * i] = two.x;
    out[2 * i + 1] = two.y;
  }
}

// One rounding each, to nearest, ties to even.
__device__ __forceinline__ void store_lanes(Bf16* to, const float (&in)[kBf16Lanes]) {
  Bf16Lanes v;
#pragma unroll
  for (int i = 0; i < 4; ++i) v.pairs[i] = __floats2bfloat162_rn(in[2 * i], in[2 * i + 1]);
  *reinterpret_cast<uint4*>(to) = v.raw;
}

}  // namespace octet::cuda
