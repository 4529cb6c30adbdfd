// SPDX-License-Identifier: Apache-2.0
// The expert GEMMs of the first contract for SM 12.0: docs/kernels/gemm_sm120.md. Nothing of it has run on a device.
#pragma once

#include "cuda/prepared_gemm.h"
#include "sm120/gemm_plan.h"

namespace octet::sm120 {

Status prepare_gemm1();
Status prepare_gemm2();
Status launch_gemm1(const cuda::GemmLaunch<cuda::Gemm1KernelArgs>& launch, int ctas,
                    cudaStream_t stream);
Status launch_gemm2(const cuda::GemmLaunch<cuda::Gemm2KernelArgs>& launch, int ctas,
                    cudaStream_t stream);

// The pair, for cuda::make_gemm1() and others.
const cuda::PreparedGemms& gemms();

}  // namespace octet::sm120
