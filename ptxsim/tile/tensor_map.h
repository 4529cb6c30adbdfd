// SPDX-License-Identifier: Apache-2.0
// Tensor maps: the 128 bytes that cp.async.bulk.tensor reads to know a tensor.
//
// Their bits are the driver's own; so the simulator has bits of its own, made by encode() from the same parameters, which a test's host
// side calls where a program would call cuTensorMapEncodeTiled. The numbers of every enumeration are those of cuda.h.
//
//   byte  0      8     16..19                       24          44          76        86           91
//         magic  base  type rank interleave swizzle dims - 1    strides     box       steps - 1    ...  checksum (124)
//               (20: L2 promotion, 21: fill)        5 x 4       4 x 8       5 x 2     5 x 1
//
// encode() checks what cuda.h's text demands, each with the value found. Known, and not modelled (kUnsupported): interleaved layouts,
// 16u6_align16b, the swizzle 128B_ATOM_32B_FLIP_8B. Not asked: whether a tensor's dimensions overlap.
// Source: CUDA driver API 13.0, cuTensorMapEncodeTiled; PTX ISA 5.5.3, 5.5.7, 5.5.8.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "octet/status.hpp"
#include "ptxsim/matrix/swizzle.h"

namespace octet::ptxsim::tile {

enum class TileType : uint8_t {
#define OCTET_PTX_TILE_TYPE(constant, name, bits, is_float) k##constant,
#include "ptxsim/tile/tile_types.inc"
#undef OCTET_PTX_TILE_TYPE
};
std::string_view tile_type_name(TileType type);
int tile_type_bits(TileType type);  // in global memory

constexpr int kMostRank = 5;
constexpr size_t kTensorMapBytes = 128;
constexpr uint64_t kTensorMapAlign = 64;
using TensorMapBytes = std::array<uint8_t, kTensorMapBytes>;

// Of each array the first `rank` (strides: rank - 1) are used, dimension 0 the innermost.
struct TensorMapArgs {
  int type = 0;  // TileType
  int rank = 0;
  uint64_t base = 0;                          // address in global memory
  std::array<uint64_t, kMostRank> dims = {};  // elements
  std::array<uint64_t, kMostRank - 1> strides =
      {};                                    // bytes from one to the next in dimensions 1 ...
  std::array<uint32_t, kMostRank> box = {};  // elements
  std::array<uint32_t, kMostRank> steps = {1, 1, 1, 1,
                                           1};  // elements from one to the next within the box
  int interleave = 0;                           // 0: none
  int swizzle = 0;  // 0 none, 1 32 bytes, 2 64, 3 128, 4 128 with atoms of 32, 6 with atoms of 64
  int l2_promotion = 0;
  int fill = 0;  // 0: zeros beyond the tensor, 1: NaN
};

Result<TensorMapBytes> encode(const TensorMapArgs& args);

struct TensorMap {
  TileType type = TileType::kUint8;
  int rank = 0;
  uint64_t base = 0;
  std::array<uint64_t, kMostRank> dims = {};
  std::array<uint64_t, kMostRank> strides = {};  // bytes; of dimension 0 not used
  std::array<uint32_t, kMostRank> box = {};
  std::array<uint32_t, kMostRank> steps = {};
  matrix::Swizzle swizzle = matrix::Swizzle::kNone;
  bool fills_nan = false;
};

// An error where these bytes are none of encode()'s.
Result<TensorMap> decode(std::span<const uint8_t> bytes);

}  // namespace octet::ptxsim::tile
