// SPDX-License-Identifier: Apache-2.0
// The expert GEMMs of the first contract on the prepared tensors as they are (semantics.md sections 6 to 8), what sm100 and sm120 have in common: arguments
// of the kernels, checks, launches by name.
//
//   front or route ──► record ──┐
//   x_quant, x_scale ───────────┴──► gemm1 ──► h_values, h_scales ──► gemm2 ──► gemm2_rows ──► finalize, or a consumer of its own
//
// gemm1 runs behind whatever wrote x_quant, x_scale and the record; gemm2 right behind gemm1, on its record and h.
#pragma once

#include <cstdint>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "core/op_args.h"
#include "cuda/prepared_order.h"
#include "cuda/tensor_map.h"
#include "octet/status.hpp"

namespace octet::cuda {

struct GemmKernelArgs {
  CUtensorMap weights;             // codes [E rows, K] e2m1: tensor_map.h
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

// A kernel's arguments and what it is launched with.
template <class Args>
struct GemmLaunch {
  Args args;
  GemmPlan plan;
};

// A backend's pair.
struct PreparedGemms {
  GemmPlan (*gemm1_plan)(int64_t hidden, int64_t intermediate);
  GemmPlan (*gemm2_plan)(int64_t hidden, int64_t padded);
  Status (*encode_weights)(EncodeTiled encode, const MapSource& from, CUtensorMap& map);
  // Once a device, before the first launch: lets the kernels have the shared memory that they need.
  Status (*prepare)();
  // Enqueue on `stream`: allocate nothing, synchronise nothing, safe inside graph capture; begin before the kernel ahead of them has ended.
  // Results do not depend on `ctas` (1 or more; as many as fill the device are best). Errors: kUnsupported with the value found and
  // the value wanted, kDeviceError from the launch.
  Status (*launch_gemm1)(const GemmLaunch<Gemm1KernelArgs>& launch, int ctas, cudaStream_t stream);
  Status (*launch_gemm2)(const GemmLaunch<Gemm2KernelArgs>& launch, int ctas, cudaStream_t stream);
};

// Why the pair can't run `args`; ok if it can. T 0 ... 8, k 1 ... 8, E 1 ... 384, H and Ip multiples of 128, Ip at least I, E * 2 Ip and E * H
// below 2^31. Codes of weights 32-byte aligned, everything else 16 (clamp 4). The device is the caller's to check.
Status check_gemm1(const PreparedGemms& gemms, const Gemm1Args& args);
Status check_gemm2(const PreparedGemms& gemms, const Gemm2Args& args);

// Checks and fills in; tensor maps by `encode` (driver_encode(), or a simulator's). T = 0: nothing is encoded, and launching does nothing.
Status make_gemm1(const PreparedGemms& gemms, const Gemm1Args& args, EncodeTiled encode,
                  GemmLaunch<Gemm1KernelArgs>& launch);
Status make_gemm2(const PreparedGemms& gemms, const Gemm2Args& args, EncodeTiled encode,
                  GemmLaunch<Gemm2KernelArgs>& launch);

}  // namespace octet::cuda
