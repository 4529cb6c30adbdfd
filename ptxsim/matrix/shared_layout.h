// SPDX-License-Identifier: Apache-2.0
// Where the elements of a matrix lie in shared memory, as the 64-bit descriptors of wgmma (sm_90) and tcgen05 (sm_100) say it.
//
// A matrix is made of 16-byte chunks. K-major: a chunk is some elements of one row, along k. MN-major: some rows of one k. With line =
// row and depth = k (K-major), or line = k and depth = row (MN-major), `chunk` counting along the depth, W the swizzle's span in bytes and
// w = W / 16 the chunks in it:
//
//   major   swizzle   address before the swizzle
//   K       none      start + line/8 * stride + line%8 * 16 + chunk * leading
//   K       W         start + line/8 * stride + line%8 * W + chunk * 16          leading is not used
//   MN      none      start + line/8 * leading + line%8 * 16 + chunk * stride
//   MN      W         start + line/8 * stride + line%8 * W + chunk%w * 16 + chunk/w * leading
//
// bits      wgmma                                        tcgen05 (shared memory descriptor)
// 0-13      start >> 4                                   start >> 4
// 16-29     leading >> 4                                 leading >> 4
// 32-45     stride >> 4                                  stride >> 4
// 46-48     0                                            0b001
// 49-51     base offset: 0 alone is modelled             base offset: 0 alone is modelled
// 52        0                                            0: leading is an offset; 1, an address (sm_103a), is not modelled
// 53-61/60  0                                            0
// 62/61-63  0 none, 1 128 bytes, 2 64, 3 32              0 none, 1 128 with atoms of 32, 2 128, 4 64, 6 32
//
// A step along K inside a span adds its bytes to start: the swizzle is on the address's own bits.
// Errors: a bit that must be 0 and is not, an unknown swizzle, a base offset, atoms of 32 bytes MN-major (kind::tf32 alone has them).
// Source: PTX ISA 9.7.15.5.1.2, 9.7.16.3, 9.7.16.4.1. The ISA says how to compute a base offset, not how it acts.
#pragma once

#include "octet/status.hpp"
#include "ptxsim/matrix/swizzle.h"

namespace octet::ptxsim::matrix {

enum class Major { kK, kMn };

struct SharedLayout {
  Swizzle swizzle = Swizzle::kNone;
  uint32_t start_bytes = 0;  // an address of shared memory, 18 bits
  uint32_t leading_bytes = 0;
  uint32_t stride_bytes = 0;
};

Result<SharedLayout> decode_wgmma_descriptor(uint64_t descriptor);
Result<SharedLayout> decode_tcgen05_descriptor(uint64_t descriptor);

// Whether a matrix of `major` may have this layout.
Status check_major(const SharedLayout& layout, Major major);

// Of the 16 bytes of `chunk` in `line`. Beyond 18 bits where the matrix does not fit there: who reads checks the address.
constexpr uint32_t chunk_address(const SharedLayout& layout, Major major, int line, int chunk) {
  const auto at_line = static_cast<uint32_t>(line), at_chunk = static_cast<uint32_t>(chunk);
  const bool is_plain = layout.swizzle == Swizzle::kNone;
  const uint32_t span = swizzle_span_bytes(layout.swizzle);
  uint32_t address = layout.start_bytes + at_line % 8 * span;
  if (major == Major::kK) {
    address +=
        at_line / 8 * layout.stride_bytes + at_chunk * (is_plain ? layout.leading_bytes : 16);
  } else if (is_plain) {
    address += at_line / 8 * layout.leading_bytes + at_chunk * layout.stride_bytes;
  } else {
    address += at_line / 8 * layout.stride_bytes + at_chunk % (span / 16) * 16 +
               at_chunk / (span / 16) * layout.leading_bytes;
  }
  return swizzled(layout.swizzle, address);
}

}  // namespace octet::ptxsim::matrix
