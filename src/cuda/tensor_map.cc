// SPDX-License-Identifier: Apache-2.0
#include "cuda/tensor_map.h"

#include <string>

#include <cuda_runtime_api.h>

#include "cuda/prepared_order.h"

namespace octet::cuda {
namespace {

struct Tile {
  CUtensorMapDataType type;
  int64_t columns, row_bytes;  // of the tensor
  cuuint32_t box_columns, box_rows;
  CUtensorMapSwizzle swizzle;
};

Status encode_tile(EncodeTiled encode, const MapSource& from, const Tile& tile, CUtensorMap& map) {
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(tile.columns),
                               static_cast<cuuint64_t>(from.rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(tile.row_bytes)};
  const cuuint32_t box[2] = {tile.box_columns, tile.box_rows}, steps[2] = {1, 1};
  const CUresult error = encode(
      &map, tile.type, 2,
      const_cast<void*>(from.data),  // NOLINT(google-readability-casting): the driver's interface
      sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, tile.swizzle,
      CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (error == CUDA_SUCCESS) return {};
  return {Code::kDeviceError, "cuTensorMapEncodeTiled refuses " + std::string(from.name) + " [" +
                                  std::to_string(from.rows) + ", " + std::to_string(from.k) +
                                  "]: error " + std::to_string(static_cast<int>(error))};
}

}  // namespace

Status driver_encode(EncodeTiled& encode) {
  constexpr unsigned kVersion = 12000;  // the interface's
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry,
                                                             kVersion, cudaEnableDefault, &found);
  if (error == cudaSuccess && found == cudaDriverEntryPointSuccess && entry != nullptr) {
    encode = reinterpret_cast<EncodeTiled>(entry);
    return {};
  }
  if (error != cudaSuccess) cudaGetLastError();  // said here
  return Status{
      Code::kDeviceError,
      "no cuTensorMapEncodeTiled in the driver: " +
          (error != cudaSuccess ? std::string(cudaGetErrorString(error))
                                : "query result " + std::to_string(static_cast<int>(found)))};
}

Status encode_unpacked_weights(EncodeTiled encode, const MapSource& from, CUtensorMap& map) {
  return encode_tile(encode, from,
                     {CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B, from.k, from.k / 2, kChunk, kBlockRows,
                      CU_TENSOR_MAP_SWIZZLE_128B},
                     map);
}

Status encode_packed_weights(EncodeTiled encode, const MapSource& from, CUtensorMap& map) {
  return encode_tile(encode, from,
                     {CU_TENSOR_MAP_DATA_TYPE_UINT8, from.k / 2, from.k / 2, kChunk / 2, kBlockRows,
                      CU_TENSOR_MAP_SWIZZLE_64B},
                     map);
}

Status encode_tokens(EncodeTiled encode, const MapSource& from, CUtensorMap& map) {
  return encode_tile(encode, from,
                     {CU_TENSOR_MAP_DATA_TYPE_UINT8, from.k, from.k, kChunk,
                      static_cast<cuuint32_t>(kTileRows), CU_TENSOR_MAP_SWIZZLE_128B},
                     map);
}

}  // namespace octet::cuda
