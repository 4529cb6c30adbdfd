// SPDX-License-Identifier: Apache-2.0
// What the expert GEMMs' kernels are given; gemm_launch.h fills it in.
#pragma once

#include <cstdint>

#include <cuda.h>

#include "core/dtype.h"

namespace octet::sm100 {

struct GemmKernelArgs {
  CUtensorMap weights;             // codes [E rows, K] e2m1: tensor_maps.h
  CUtensorMap tokens;              // x_quant [T, H] or h [8 ctas, Ip] e4m3
  const uint8_t* weight_scales;    // 128x4, expert after expert
  const int32_t* record;           // routing/record.h, 16-byte aligned
  int32_t most_tiles;              // ctas of the record
  int32_t expert_rows;             // stored weight rows of an expert: 2 Ip, H
  int32_t blocks, chunks, stages;  // GemmPlan's
};

struct Gemm1KernelArgs {
  GemmKernelArgs gemm;
  const uint8_t* x_scale;  // [T, H/32], 4-byte aligned
  const float* clamp;      // [E]
  int32_t tokens, intermediate, padded;
  uint8_t* h_values;  // [8 ctas, Ip] e4m3
  uint8_t* h_scales;  // [ctas * Ip * 4], layouts::h_scale_offset()
};

struct Gemm2KernelArgs {
  GemmKernelArgs gemm;
  const uint8_t* h_scales;
  int32_t hidden;
  Bf16* gemm2_rows;  // [8 ctas or more, H], 8-byte aligned
};

}  // namespace octet::sm100
