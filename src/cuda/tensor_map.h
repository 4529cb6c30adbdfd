// SPDX-License-Identifier: Apache-2.0
// Tensor maps: what a copy of a tile is told of a tensor in global memory. cuda.h, cuTensorMapEncodeTiled; PTX ISA 5.5.
#pragma once

#include <cstdint>

#include <cuda.h>

#include "octet/status.hpp"

namespace octet::cuda {

// The driver's cuTensorMapEncodeTiled, or something with its interface: a simulator's, whose 128 bytes are its own.
using EncodeTiled = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                 const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                 const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                 CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
// Errors: kDeviceError where there is no driver, or one without it (before CUDA 12.8, whose maps unpack FP4).
Status driver_encode(EncodeTiled& encode);

// `rows` rows of `k` elements, one after the other. Tiles of 128 elements of K.
struct MapSource {
  const char* name;  // for the error's sentence
  const void* data;
  int64_t rows, k;
};
// E2M1 pairs, 128 rows a tile; `data` 32-byte aligned, k a multiple of 128. 16 elements unpacked to 8 bytes and a gap of 8, swizzled by 128 bytes:
Status encode_unpacked_weights(EncodeTiled encode, const MapSource& from, CUtensorMap& map);
// as they are, 64 bytes a row, swizzled by 64 bytes; the map counts columns in bytes, two elements each:
Status encode_packed_weights(EncodeTiled encode, const MapSource& from, CUtensorMap& map);
// E4M3: eight rows a tile, swizzled by 128 bytes; rows beyond the last one are zeros. `data` 16-byte aligned, k a multiple of 16.
Status encode_tokens(EncodeTiled encode, const MapSource& from, CUtensorMap& map);

}  // namespace octet::cuda
