// SPDX-License-Identifier: Apache-2.0
// cuTensorMapEncodeTiled's stand-in for the simulator: the same interface, bytes of ptxsim/tile/tensor_map.h.
#pragma once

#include <cuda.h>

namespace octet::sim {

// Errors: CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED for what is not modelled; the sentence goes to stderr.
CUresult encode_tiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* base,
                      const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                      const cuuint32_t* steps, CUtensorMapInterleave interleave,
                      CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2_promotion,
                      CUtensorMapFloatOOBfill fill);

}  // namespace octet::sim
