// SPDX-License-Identifier: Apache-2.0
// experts_bf16_mxfp4_sm90: the routed experts of a decode step in one launch, BF16 activations, MXFP4 weights.
//
// Shapes, alignment, errors: experts_mxfp8.h. Order of work and sums: work.h. Rounding: stage_bf16.cuh (products), cuda/swiglu.cuh, one to bf16 an
// element of h and of a row. Truth: reference::layer. Hand-over: experts_shared.cuh. docs/kernels/experts_bf16_sm90.md.
#include "sm90/experts_kernel.cuh"

namespace octet::sm90 {

template struct ExpertsOf<Bf16Fp4<WeightFormat::kMxfp4>>;

}  // namespace octet::sm90
