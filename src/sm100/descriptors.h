// SPDX-License-Identifier: Apache-2.0
// What tcgen05 is told of operands in a register, where no assembler can check it: PTX ISA 9.7.16.4, tables 40 (shared memory) and 43
// (instruction of kind::mxf8f6f4).
#pragma once

#include <cstdint>

#include "cuda/prepared_order.h"

namespace octet::sm100 {

constexpr uint64_t kDescriptorVersion = uint64_t{1} << 46;  // bits 46 ... 48 are 0b001
constexpr uint64_t kSwizzle128 = uint64_t{2} << 61;

// Bits 0 ... 13, and at `shift` likewise: 18 bits of an address or of a distance, in units of 16 bytes.
OCTET_HOST_DEVICE constexpr uint64_t descriptor_field(uint32_t bytes, int shift) {
  return uint64_t{(bytes & 0x3FFFFU) >> 4} << shift;
}

// An operand of rows of 128 bytes along K, in groups of eight rows, 128-byte swizzle; `address` on 1024 but for the K step of 32 elements,
// which is 32 bytes, since e2m1 is unpacked to 16 elements in 16 bytes. The leading distance (field 16) is of no meaning there.
OCTET_HOST_DEVICE constexpr uint64_t operand_descriptor(uint32_t address) {
  return descriptor_field(address, 0) | descriptor_field(16, 16) | descriptor_field(1024, 32) |
         kDescriptorVersion | kSwizzle128;
}
// 32 lines of 16 bytes, eight lines 128 bytes apart, no swizzle.
OCTET_HOST_DEVICE constexpr uint64_t scales_descriptor(uint32_t address) {
  return descriptor_field(address, 0) | descriptor_field(128, 32) | kDescriptorVersion;
}

// a [128, 32] e2m1 by b [8, 32] e4m3, both K-major, UE8M0 scales: for both the byte `scale_byte` of a column.
OCTET_HOST_DEVICE constexpr uint32_t instruction_descriptor(uint32_t scale_byte) {
  constexpr uint32_t kE2m1 = 5, kE4m3 = 0, kM = 128, kN = 8, kUe8m0 = 1;
  return scale_byte << 4 | kE2m1 << 7 | kE4m3 << 10 | (kN >> 3) << 17 | kUe8m0 << 23 |
         (kM >> 7) << 27 | scale_byte << 29;
}

}  // namespace octet::sm100
