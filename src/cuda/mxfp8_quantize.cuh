// SPDX-License-Identifier: Apache-2.0
// MXFP8 quantisation of x by four threads a block of 32, eight numbers each: semantics.md section 3.
#pragma once

#include <cstdint>

#include <cuda_fp8.h>

#include "core/op_args.h"
#include "cuda/warp.cuh"
#include "layouts/scale_layout.h"

namespace octet::cuda {

constexpr int kQuantizeElems = 8;  // of a thread: one 16-byte load

namespace mxfp8 {

// UE8M0 of a block whose largest magnitude is `amax`, NaN if it has no number.
__device__ __forceinline__ uint32_t scale_code(float amax) {
  constexpr uint32_t kInf = 0x7F800000U, kMantissa = 0x7FFFFFU, kMost = 254;
  if (!(amax == amax)) return kMost;
  const uint32_t v = __float_as_uint(__fmul_rn(amax, __uint_as_float(0x3B124925U)));  // 1 / 448
  if (v >= kInf) return kMost;
  const uint32_t e = v >> 23, m = v & kMantissa;
  if (e == 0) return m > 0x400000U ? 1U : 0U;
  return min(e + (m != 0 ? 1U : 0U), kMost);
}

__device__ __forceinline__ float inverse_of(uint32_t code) {
  return code == 0 || code == 254 ? 0.0F : __uint_as_float((254U - code) << 23);
}

// fminf and fmaxf drop NaN, which becomes 448.
__device__ __forceinline__ float clamped(float v) { return fmaxf(fminf(v, 448.0F), -448.0F); }

}  // namespace mxfp8

// Eight numbers of a block; its four threads are neighbours in one warp, and all come here.
struct QuantizedElems {
  uint2 codes;     // e4m3
  uint32_t scale;  // ue8m0 of the block
};
__device__ __forceinline__ QuantizedElems quantize_elems(uint4 raw) {
  const uint32_t pairs[4] = {raw.x, raw.y, raw.z, raw.w};
  float v[kQuantizeElems];
  float amax = __uint_as_float(0x7FFFFFFFU);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    v[2 * i] = __uint_as_float(pairs[i] << 16);
    v[2 * i + 1] = __uint_as_float(pairs[i] & 0xFFFF0000U);
    amax = fmaxf(amax, fmaxf(fabsf(v[2 * i]), fabsf(v[2 * i + 1])));
  }
  amax = fmaxf(amax, __shfl_xor_sync(kWholeWarp, amax, 1));
  amax = fmaxf(amax, __shfl_xor_sync(kWholeWarp, amax, 2));
  const uint32_t code = mxfp8::scale_code(amax);
  const float inverse = mxfp8::inverse_of(code);
  uint32_t out[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    uint32_t word = 0;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float2 two = make_float2(mxfp8::clamped(__fmul_rn(v[4 * i + 2 * j], inverse)),
                                     mxfp8::clamped(__fmul_rn(v[4 * i + 2 * j + 1], inverse)));
      const auto codes = __nv_cvt_float2_to_fp8x2(two, __NV_SATFINITE, __NV_E4M3);
      word |= static_cast<uint32_t>(codes) << (16 * j);
    }
    out[i] = word;
  }
  return {make_uint2(out[0], out[1]), code};
}

// Elements index * 8 ... + 7 of x [T, K].
__device__ __forceinline__ void quantize_eight(const QuantizeArgs& a, int64_t index,
                                               bool is_there) {
  const QuantizedElems q = quantize_elems(is_there ? reinterpret_cast<const uint4*>(a.x)[index]
                                                   : make_uint4(0, 0, 0, 0));
  if (!is_there) return;
  reinterpret_cast<uint2*>(a.x_quant)[index] = q.codes;
  if (index % 4 != 0) return;
  const int64_t block = index / 4, cols = a.width / kMxBlock;
  a.x_scale[layouts::scale_offset(a.layout, cols, block / cols, block % cols)] =
      static_cast<uint8_t>(q.scale);
}

}  // namespace octet::cuda
