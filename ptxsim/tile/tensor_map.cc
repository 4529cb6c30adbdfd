// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/tile/tensor_map.h"

#include <cstring>
#include <fmt/format.h>

namespace octet::ptxsim::tile {
namespace {

constexpr struct TileTypeRow {
  std::string_view name;
  int bits;
  bool is_float;
} kTileTypes[] = {
#define OCTET_PTX_TILE_TYPE(constant, name, bits, is_float) {name, bits, is_float},
#include "ptxsim/tile/tile_types.inc"
#undef OCTET_PTX_TILE_TYPE
};
constexpr int kNumTileTypes = static_cast<int>(std::size(kTileTypes));

constexpr uint64_t kMagic = 0x70616D74'6C656374;  // nothing that a program's own data begins with
constexpr size_t kBaseAt = 8, kTypeAt = 16, kDimsAt = 24, kStridesAt = 44, kBoxAt = 76,
                 kStepsAt = 86, kChecksumAt = 124;

constexpr int kFlip8b = 5, kMostSwizzle = 6;

template <class... Args>
Status wrong(fmt::format_string<Args...> what, Args&&... args) {
  return invalid_argument("tensor map: " + fmt::format(what, std::forward<Args>(args)...));
}

bool is_padded(TileType type) {
  return type == TileType::k16u4Align16b || type == TileType::k16u6Align16b;
}

Status check_enums(const TensorMapArgs& args) {
  if (args.type < 0 || args.type >= kNumTileTypes) return wrong("no element type {}", args.type);
  if (args.rank < 1 || args.rank > kMostRank) return wrong("rank {}, want 1 ... 5", args.rank);
  if (args.interleave < 0 || args.interleave > 2) return wrong("no interleave {}", args.interleave);
  if (args.swizzle < 0 || args.swizzle > kMostSwizzle) return wrong("no swizzle {}", args.swizzle);
  if (args.l2_promotion < 0 || args.l2_promotion > 3)
    return wrong("no L2 promotion {}", args.l2_promotion);
  if (args.fill < 0 || args.fill > 1) return wrong("no fill {}", args.fill);
  if (args.fill == 1 && !kTileTypes[args.type].is_float)
    return wrong("fill with NaN of {}, which is no floating-point type",
                 kTileTypes[args.type].name);
  return {};
}

Status check_modelled(const TensorMapArgs& args) {
  if (args.interleave != 0) return unsupported("tensor map: interleaved layouts are not modelled");
  if (TileType(args.type) == TileType::k16u6Align16b)
    return unsupported("tensor map: 16u6_align16b is not modelled");
  if (args.swizzle == kFlip8b)
    return unsupported("tensor map: the swizzle 128B_ATOM_32B_FLIP_8B is not modelled");
  return {};
}

Status check_tensor(const TensorMapArgs& args) {
  const auto type = TileType(args.type);
  const uint64_t align = is_padded(type) ? 32 : 16;
  if (args.base % align != 0) return wrong("base 0x{:x} is not a multiple of {}", args.base, align);
  for (int i = 0; i < args.rank; ++i) {
    if (args.dims[i] == 0 || args.dims[i] > uint64_t{1} << 32)
      return wrong("dimension {} has {} elements, want 1 ... 2^32", i, args.dims[i]);
  }
  const uint64_t multiple = is_padded(type) ? 128 : type == TileType::k16u4Align8b ? 2 : 1;
  if (args.dims[0] % multiple != 0)
    return wrong("dimension 0 has {} elements, want a multiple of {}", args.dims[0], multiple);
  for (int i = 0; i + 1 < args.rank; ++i) {
    if (args.strides[i] % align != 0 || args.strides[i] >= uint64_t{1} << 40)
      return wrong("stride {} of dimension {}, want a multiple of {} below 2^40", args.strides[i],
                   i + 1, align);
  }
  return {};
}

Status check_box(const TensorMapArgs& args) {
  for (int i = 0; i < args.rank; ++i) {
    if (args.box[i] == 0 || args.box[i] > 256)
      return wrong("box has {} elements in dimension {}, want 1 ... 256", args.box[i], i);
    if (args.steps[i] == 0 || args.steps[i] > 8)
      return wrong("step {} in dimension {}, want 1 ... 8", args.steps[i], i);
  }
  const auto type = TileType(args.type);
  if (is_padded(type) && args.box[0] != 128)
    return wrong("box has {} elements in dimension 0, want 128 of {}", args.box[0],
                 tile_type_name(type));
  const uint32_t inner_bits = args.box[0] * static_cast<uint32_t>(tile_type_bits(type));
  if (inner_bits % 128 != 0)
    return wrong("box's inner dimension is {} bits, want a multiple of 16 bytes", inner_bits);
  return {};
}

Status check_swizzle(const TensorMapArgs& args) {
  const auto type = TileType(args.type);
  const bool is_plain_or_128 = args.swizzle == 0 || args.swizzle == 3 || args.swizzle == 4;
  if (is_padded(type) && !is_plain_or_128)
    return wrong("swizzle {} of {}, want 0, 3 or 4", args.swizzle, tile_type_name(type));
  if (args.swizzle == 0 || is_padded(type)) return {};  // padded: 128 elements fill 128 bytes
  const uint32_t bytes = args.box[0] * static_cast<uint32_t>(tile_type_bits(type)) / 8;
  const uint32_t most = args.swizzle == 1 ? 32 : args.swizzle == 2 ? 64 : 128;
  if (bytes > most)
    return wrong("box's inner dimension is {} bytes, want at most the swizzle's {}", bytes, most);
  return {};
}

template <class T>
void put(TensorMapBytes& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}
template <class T>
T get(std::span<const uint8_t> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

uint32_t checksum(std::span<const uint8_t> bytes) {  // FNV-1a
  uint32_t sum = 2166136261U;
  for (size_t i = 0; i < kChecksumAt; ++i) sum = (sum ^ bytes[i]) * 16777619U;
  return sum;
}

constexpr matrix::Swizzle kSwizzles[kMostSwizzle + 1] = {
    matrix::Swizzle::kNone,      matrix::Swizzle::k32,        matrix::Swizzle::k64,
    matrix::Swizzle::k128,       matrix::Swizzle::k128Atom32,
    matrix::Swizzle::k128Atom32,  // the flip, which check_modelled refuses
    matrix::Swizzle::k128Atom64};

}  // namespace

std::string_view tile_type_name(TileType type) { return kTileTypes[static_cast<int>(type)].name; }
int tile_type_bits(TileType type) { return kTileTypes[static_cast<int>(type)].bits; }

Result<TensorMapBytes> encode(const TensorMapArgs& args) {
  OCTET_RETURN_IF_ERROR(check_enums(args));
  OCTET_RETURN_IF_ERROR(check_modelled(args));
  OCTET_RETURN_IF_ERROR(check_tensor(args));
  OCTET_RETURN_IF_ERROR(check_box(args));
  OCTET_RETURN_IF_ERROR(check_swizzle(args));
  TensorMapBytes bytes = {};
  put(bytes, 0, kMagic);
  put(bytes, kBaseAt, args.base);
  const int fields[6] = {args.type,    args.rank,         args.interleave,
                         args.swizzle, args.l2_promotion, args.fill};
  for (size_t i = 0; i < 6; ++i) put(bytes, kTypeAt + i, static_cast<uint8_t>(fields[i]));
  for (size_t i = 0; i < static_cast<size_t>(args.rank); ++i) {
    put(bytes, kDimsAt + 4 * i, static_cast<uint32_t>(args.dims[i] - 1));
    put(bytes, kBoxAt + 2 * i, static_cast<uint16_t>(args.box[i]));
    put(bytes, kStepsAt + i, static_cast<uint8_t>(args.steps[i] - 1));
    if (i + 1 < static_cast<size_t>(args.rank)) put(bytes, kStridesAt + 8 * i, args.strides[i]);
  }
  put(bytes, kChecksumAt, checksum(bytes));
  return bytes;
}

Result<TensorMap> decode(std::span<const uint8_t> bytes) {
  if (bytes.size() != kTensorMapBytes)
    return wrong("{} bytes, want {}", bytes.size(), kTensorMapBytes);
  if (get<uint64_t>(bytes, 0) != kMagic)
    return wrong("bytes begin with 0x{:016x}: none that this simulator's encode made",
                 get<uint64_t>(bytes, 0));
  if (get<uint32_t>(bytes, kChecksumAt) != checksum(bytes))
    return wrong("its bytes were changed after encode made them");
  TensorMap map;
  map.base = get<uint64_t>(bytes, kBaseAt);
  map.type = TileType(bytes[kTypeAt]);
  map.rank = bytes[kTypeAt + 1];
  map.swizzle = kSwizzles[bytes[kTypeAt + 3]];
  map.fills_nan = bytes[kTypeAt + 5] != 0;
  for (size_t i = 0; i < static_cast<size_t>(map.rank); ++i) {
    map.dims[i] = uint64_t{get<uint32_t>(bytes, kDimsAt + 4 * i)} + 1;
    map.box[i] = get<uint16_t>(bytes, kBoxAt + 2 * i);
    map.steps[i] = uint32_t{bytes[kStepsAt + i]} + 1;
    if (i > 0) map.strides[i] = get<uint64_t>(bytes, kStridesAt + 8 * (i - 1));
  }
  return map;
}

}  // namespace octet::ptxsim::tile
