// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/matrix/shared_layout.h"

#include <fmt/format.h>

namespace octet::ptxsim::matrix {
namespace {

uint32_t field(uint64_t descriptor, int first, int bits) {
  return static_cast<uint32_t>(descriptor >> first & ((uint64_t{1} << bits) - 1));
}

Status expect_field(uint64_t descriptor, int first, int bits, uint32_t want) {
  const uint32_t found = field(descriptor, first, bits);
  if (found == want) return {};
  return invalid_argument(fmt::format("matrix descriptor 0x{:016x}: bits {}-{} are {}, want {}",
                                      descriptor, first, first + bits - 1, found, want));
}

// What both kinds have at the same place.
Result<SharedLayout> decode_addresses(uint64_t descriptor) {
  OCTET_RETURN_IF_ERROR(expect_field(descriptor, 14, 2, 0));
  OCTET_RETURN_IF_ERROR(expect_field(descriptor, 30, 2, 0));
  if (const uint32_t base = field(descriptor, 49, 3); base != 0)
    return unsupported(fmt::format(
        "matrix descriptor 0x{:016x}: base offset {}, 0 alone is modelled", descriptor, base));
  SharedLayout layout;
  layout.start_bytes = field(descriptor, 0, 14) << 4;
  layout.leading_bytes = field(descriptor, 16, 14) << 4;
  layout.stride_bytes = field(descriptor, 32, 14) << 4;
  return layout;
}

Status unknown_swizzle(uint64_t descriptor, uint32_t code) {
  return invalid_argument(
      fmt::format("matrix descriptor 0x{:016x}: no swizzle has the code {}", descriptor, code));
}

}  // namespace

Result<SharedLayout> decode_wgmma_descriptor(uint64_t descriptor) {
  OCTET_RETURN_IF_ERROR(expect_field(descriptor, 46, 3, 0));
  OCTET_RETURN_IF_ERROR(expect_field(descriptor, 52, 10, 0));
  OCTET_ASSIGN_OR_RETURN(SharedLayout layout, decode_addresses(descriptor));
  constexpr Swizzle kCodes[4] = {Swizzle::kNone, Swizzle::k128, Swizzle::k64, Swizzle::k32};
  layout.swizzle = kCodes[field(descriptor, 62, 2)];
  return layout;
}

Result<SharedLayout> decode_tcgen05_descriptor(uint64_t descriptor) {
  OCTET_RETURN_IF_ERROR(expect_field(descriptor, 46, 3, 1));
  if (field(descriptor, 52, 1) != 0)
    return unsupported(fmt::format(
        "matrix descriptor 0x{:016x}: the leading dimension as an address is not modelled",
        descriptor));
  OCTET_RETURN_IF_ERROR(expect_field(descriptor, 53, 8, 0));
  OCTET_ASSIGN_OR_RETURN(SharedLayout layout, decode_addresses(descriptor));
  switch (const uint32_t code = field(descriptor, 61, 3)) {
    case 0:
      layout.swizzle = Swizzle::kNone;
      break;
    case 1:
      layout.swizzle = Swizzle::k128Atom32;
      break;
    case 2:
      layout.swizzle = Swizzle::k128;
      break;
    case 4:
      layout.swizzle = Swizzle::k64;
      break;
    case 6:
      layout.swizzle = Swizzle::k32;
      break;
    default:
      return unknown_swizzle(descriptor, code);
  }
  return layout;
}

Status check_major(const SharedLayout& layout, Major major) {
  if (major == Major::kMn && layout.swizzle == Swizzle::k128Atom32)
    return invalid_argument(
        "a transposed matrix of elements below 32 bits in a 128-byte swizzle with atoms of 32 "
        "bytes (PTX ISA 9.7.16.10.1 has none)");
  return {};
}

}  // namespace octet::ptxsim::matrix
