// SPDX-License-Identifier: Apache-2.0
// Swizzles of shared memory: which byte address a byte of a linear layout really stands at.
//
//   kind             bits that change   by the bits above   a pattern repeats after
//   k32              4                  7                   256 bytes
//   k64              4, 5               7, 8                512
//   k128             4, 5, 6            7, 8, 9             1024
//   k128Atom32       5, 6               7, 8                512: 32 bytes stay together
//   k128Atom64       6                  7                   256: 64 bytes stay together
//
// On absolute bits of the address, so that who writes and who reads agree without knowing where a tile begins. Each is its own inverse
// and moves whole 16 bytes. Source: PTX ISA 5.5.7 (tensor maps), 9.7.15.5.1.2 and 9.7.16.10.6 (matrix descriptors).
#pragma once

#include <cstdint>

namespace octet::ptxsim::matrix {

enum class Swizzle { kNone, k32, k64, k128, k128Atom32, k128Atom64 };

// Bytes of a row of the pattern: what of a line lies together; 16 without a swizzle.
constexpr uint32_t swizzle_span_bytes(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::kNone:
      return 16;
    case Swizzle::k32:
      return 32;
    case Swizzle::k64:
      return 64;
    default:
      return 128;
  }
}

constexpr uint32_t swizzled(Swizzle swizzle, uint32_t address) {
  switch (swizzle) {
    case Swizzle::kNone:
      return address;
    case Swizzle::k32:
      return address ^ (address >> 3 & 0x10);
    case Swizzle::k64:
      return address ^ (address >> 3 & 0x30);
    case Swizzle::k128:
      return address ^ (address >> 3 & 0x70);
    case Swizzle::k128Atom32:
      return address ^ (address >> 2 & 0x60);
    case Swizzle::k128Atom64:
      return address ^ (address >> 1 & 0x40);
  }
  return address;
}

}  // namespace octet::ptxsim::matrix
