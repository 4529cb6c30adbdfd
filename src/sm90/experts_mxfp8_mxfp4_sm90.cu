// SPDX-License-Identifier: Apache-2.0
// experts_mxfp8_mxfp4_sm90: the routed experts of a decode step in one launch, MXFP8 activations, MXFP4 weights.
//
// Shapes, alignment, errors: experts_mxfp8.h. Order of work and sums: work.h. Rounding: stage.cuh (products), cuda/swiglu.cuh, hidden_mxfp8.cuh, one to bf16 a
// row. Truth: reference::layer. Hand-over: experts_shared.cuh. Why it cannot hang, what was tried: docs/kernels/gemm_mxfp8.md.
#include "sm90/experts_kernel.cuh"

namespace octet::sm90 {

template struct ExpertsOf<Mxfp8Mxfp4>;

}  // namespace octet::sm90
