// SPDX-License-Identifier: Apache-2.0
// Element types of tensors, spelled as safetensors spells them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace octet {

// BF16 bits. A type of its own, so that bits are never taken for a number; see formats/bf16.h.
struct Bf16 {
  uint16_t bits;
  friend bool operator==(const Bf16&, const Bf16&) = default;
};
static_assert(sizeof(Bf16) == 2 && alignof(Bf16) == 2);

enum class Dtype : uint8_t {
  kF64,
  kF32,
  kF16,
  kBf16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU8,
  kE4m3,
  kE5m2,
  kUe8m0,
  kBool
};

constexpr struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  size_t bytes;
} kDtypes[] = {
    {Dtype::kF64, "F64", 8},      {Dtype::kF32, "F32", 4},      {Dtype::kF16, "F16", 2},
    {Dtype::kBf16, "BF16", 2},    {Dtype::kI64, "I64", 8},      {Dtype::kI32, "I32", 4},
    {Dtype::kI16, "I16", 2},      {Dtype::kI8, "I8", 1},        {Dtype::kU8, "U8", 1},
    {Dtype::kE4m3, "F8_E4M3", 1}, {Dtype::kE5m2, "F8_E5M2", 1}, {Dtype::kUe8m0, "F8_E8M0", 1},
    {Dtype::kBool, "BOOL", 1},
};

constexpr size_t dtype_bytes(Dtype dtype) { return kDtypes[static_cast<int>(dtype)].bytes; }
constexpr std::string_view dtype_name(Dtype dtype) { return kDtypes[static_cast<int>(dtype)].name; }
constexpr std::optional<Dtype> dtype_from_name(std::string_view name) {
  for (const DtypeRow& row : kDtypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

}  // namespace octet
