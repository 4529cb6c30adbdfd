// SPDX-License-Identifier: Apache-2.0
#include "sim_tensor_map.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "ptxsim/tile/tensor_map.h"
#include "sim_map_changes.h"

namespace octet::sim {

CUresult encode_tiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* base,
                      const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                      const cuuint32_t* steps, CUtensorMapInterleave interleave,
                      CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2_promotion,
                      CUtensorMapFloatOOBfill fill) {
  ptxsim::tile::TensorMapArgs args;
  args.type = type;
  args.rank = static_cast<int>(rank);
  args.base = reinterpret_cast<uint64_t>(base);
  const cuuint32_t known = std::min<cuuint32_t>(rank, ptxsim::tile::kMostRank);
  std::copy_n(dims, known, args.dims.begin());
  if (known > 0) std::copy_n(strides, known - 1, args.strides.begin());
  std::copy_n(box, known, args.box.begin());
  std::copy_n(steps, known, args.steps.begin());
  args.interleave = interleave;
  args.swizzle = swizzle;
  args.l2_promotion = l2_promotion;
  args.fill = fill;
  change_map(args);
  const auto bytes = ptxsim::tile::encode(args);
  if (!bytes.ok()) {
    std::fprintf(stderr, "%s\n", bytes.status().why.c_str());
    return bytes.status().code == Code::kUnsupported ? CUDA_ERROR_NOT_SUPPORTED
                                                     : CUDA_ERROR_INVALID_VALUE;
  }
  static_assert(sizeof(CUtensorMap) == ptxsim::tile::kTensorMapBytes);
  std::memcpy(map, bytes->data(), bytes->size());
  return CUDA_SUCCESS;
}

}  // namespace octet::sim
