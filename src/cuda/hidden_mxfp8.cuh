// SPDX-License-Identifier: Apache-2.0
// h between the GEMMs on BF16 tensor cores: to MXFP8 (semantics.md section 7) and, as BF16 numbers of the same values, to the fragments that GEMM2
// reads; and what a trace wants of it.
#pragma once

#include <cstdint>

#include <cuda_fp8.h>

#include "cuda/expert_gemm_bf16.cuh"
#include "cuda/expert_gemm_bf16.h"
#include "cuda/hidden_scale.cuh"

namespace octet::cuda {

constexpr int kHiddenThreads = 256;

struct HiddenKernelArgs {
  GemmKernelArgs gemm;
  HiddenTrace trace;
};

namespace hidden {

// 2^(127 - code), a subnormal for 254 and 255.
__device__ __forceinline__ float inverse_of(uint32_t code) {
  return code >= 254 ? __uint_as_float(0x400000U >> (code - 254))
                     : __uint_as_float((254U - code) << 23);
}

}  // namespace hidden

// A warp a block of 32 columns of a row.
__global__ __launch_bounds__(kHiddenThreads) void quantize_hidden_kernel(
    const __grid_constant__ HiddenKernelArgs args) {
  wait_for_previous();
  let_next_begin();
  const GemmKernelArgs& a = args.gemm;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int32_t blocks = a.hidden_stride / kWarp;
  const auto intermediate = static_cast<int32_t>(a.args.intermediate);
  const int64_t num_blocks = int64_t{a.routed.num_tiles()} * 8 * blocks;
  const int64_t step = int64_t{gridDim.x} * (kHiddenThreads / kWarp);
  for (int64_t at = int64_t{blockIdx.x} * (kHiddenThreads / kWarp) + threadIdx.x / kWarp;
       at < num_blocks; at += step) {
    const auto row = static_cast<int32_t>(at / blocks), block = static_cast<int32_t>(at % blocks);
    const int32_t tile = row / 8, column = 32 * block + lane;
    if (row >= a.routed.limit(tile)) continue;
    if (block == 0) clear_padding(a, tile, row % 8);
    const bool is_own = column < intermediate;
    const float h =
        is_own ? mul_flushed(a.hidden[int64_t{row} * a.hidden_stride + column], 1.0F) : 0.0F;
    float amax = h == h ? fabsf(h) : 0.0F;
#pragma unroll
    for (int other = 16; other > 0; other /= 2)
      amax = fmaxf(amax, __shfl_xor_sync(kWholeWarp, amax, other));
    if (amax == 0.0F) amax = 448.0F;
    const uint32_t scale = hidden::scale_code(amax);
    const uint32_t code =
        __nv_cvt_float_to_fp8(__fmul_rn(h, hidden::inverse_of(scale)), __NV_SATFINITE, __NV_E4M3);
    if (!is_own) continue;
    const uint32_t factor = scale == 0 ? 0x40U : scale == 255 ? 0x7FC0U : scale << 7;
    const uint32_t bits =
        (code & 0x7FU) == 0x7FU ? 0x7FC0U : (code & 0x80U) << 8 | (code & 0x7FU) << 4;
    const uint32_t value = mul_bf16x2(mul_bf16x2(bits, power_bf16x2(120)), factor);
    const int k = static_cast<int>(a.args.weights.sizes.down_start) + column;
    reinterpret_cast<uint16_t*>(a.fragments)[fragment_index(a.k_blocks, tile, row % 8, k)] =
        static_cast<uint16_t>(value);
    if (args.trace.h_values == nullptr && args.trace.h_scales == nullptr) continue;
    const int64_t slot = a.routed.slot(row);
    if (args.trace.h_values != nullptr)
      args.trace.h_values[slot * intermediate + column] = static_cast<uint8_t>(code);
    if (args.trace.h_scales != nullptr && lane == 0)
      args.trace.h_scales[slot * blocks + block] = static_cast<uint8_t>(scale);
  }
}

// h [T k, I] from the fragments of BF16 layers; a thread an element.
__global__ __launch_bounds__(kHiddenThreads) void trace_hidden_kernel(
    const __grid_constant__ HiddenKernelArgs args) {
  wait_for_previous();
  let_next_begin();
  const GemmKernelArgs& a = args.gemm;
  const auto intermediate = static_cast<int32_t>(a.args.intermediate);
  const int64_t elems = int64_t{a.routed.num_tiles()} * 8 * intermediate;
  for (int64_t at = int64_t{blockIdx.x} * kHiddenThreads + threadIdx.x; at < elems;
       at += int64_t{gridDim.x} * kHiddenThreads) {
    const auto row = static_cast<int32_t>(at / intermediate);
    const auto column = static_cast<int32_t>(at % intermediate);
    if (row >= a.routed.limit(row / 8)) continue;
    const int k = static_cast<int>(a.args.weights.sizes.down_start) + column;
    args.trace.h[int64_t{a.routed.slot(row)} * intermediate + column].bits =
        reinterpret_cast<const uint16_t*>(
            a.fragments)[fragment_index(a.k_blocks, row / 8, row % 8, k)];
  }
}

}  // namespace octet::cuda
