// SPDX-License-Identifier: Apache-2.0
// The expert GEMMs of the first contract for SM100 and SM103, on the prepared tensors as they are: semantics.md sections 6 to 8;
// docs/kernels/gemm_sm100.md. Nothing of it has run on a device.
//
//   front or route ──► record ──┐
//   x_quant, x_scale ───────────┴──► gemm1 ──► h_values, h_scales ──► gemm2 ──► gemm2_rows ──► finalize, or a consumer of its own
//
// gemm1 runs behind whatever wrote x_quant, x_scale and the record; gemm2 right behind gemm1, on its record and h.
#pragma once

#include <cuda_runtime_api.h>

#include "core/op_args.h"
#include "octet/status.hpp"
#include "sm100/gemm_args.h"
#include "sm100/gemm_plan.h"
#include "sm100/tensor_maps.h"

namespace octet::sm100 {

// Why these kernels can't run `args`; ok if they can. T 0 ... 8, k 1 ... 8, E 1 ... 384, H and Ip multiples of 128, Ip at least I, E * 2 Ip and E * H
// below 2^31. Codes of weights 32-byte aligned, everything else 16 (clamp 4). The device is the caller's to check: SM 10.0 or 10.3.
Status check_gemm1(const Gemm1Args& args);
Status check_gemm2(const Gemm2Args& args);

// A kernel's arguments and what it is launched with.
template <class Args>
struct GemmLaunch {
  Args args;
  GemmPlan plan;
};
// Checks and fills in; tensor maps by `encode` (driver_encode(), or a simulator's). T = 0: nothing is encoded, and launching does nothing.
Status make_gemm1(const Gemm1Args& args, EncodeTiled encode, GemmLaunch<Gemm1KernelArgs>& launch);
Status make_gemm2(const Gemm2Args& args, EncodeTiled encode, GemmLaunch<Gemm2KernelArgs>& launch);

// Once a device, before the first launch: lets the kernels have the shared memory that they need.
Status prepare_gemm1();
Status prepare_gemm2();

// Enqueue on `stream`: allocate nothing, synchronise nothing, safe inside graph capture; begin before the kernel ahead of them has ended.
// Results do not depend on `ctas` (1 or more; as many as the device has SMs is best). Errors: kUnsupported with the value found and the
// value wanted, kDeviceError from the launch.
Status launch_gemm1(const GemmLaunch<Gemm1KernelArgs>& launch, int ctas, cudaStream_t stream);
Status launch_gemm2(const GemmLaunch<Gemm2KernelArgs>& launch, int ctas, cudaStream_t stream);

}  // namespace octet::sm100
