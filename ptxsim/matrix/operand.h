// SPDX-License-Identifier: Apache-2.0
// The elements of a matrix in shared memory, as codes: a 16-byte chunk of its layout holds 8 of 16 bits or 16 of fewer.
//
//   8 bits        a byte each
//   6 bits        16 in 12 bytes, low bits first, 4 bytes of anything behind     K-major alone
//   4 bits        16 in 8 bytes, low nibble first, 8 bytes of anything behind    K-major alone
//
// Source: PTX ISA 9.7.16.10.4.4 (packing of kind::mxf8f6f4), 5.5.1.1 (what the tensor copies make of packed elements). That text has no
// order of the bits of 6-bit elements but in a figure: low bits first is unproven.
#pragma once

#include <cstdint>
#include <vector>

#include "octet/status.hpp"
#include "ptxsim/matrix/format.h"
#include "ptxsim/matrix/shared_layout.h"

namespace octet::ptxsim::matrix {

struct OperandShape {
  Format format = Format::kE4m3;
  Major major = Major::kK;
  int rows = 0;   // m of a, n of b
  int depth = 0;  // k
};

constexpr int kChunkBytes = 16;

// Elements of a chunk.
constexpr int chunk_elements(int format_bits) { return format_bits == 16 ? 8 : 16; }
// Of the chunk's bytes, those that hold elements, from its first.
constexpr int chunk_used_bytes(int format_bits) { return format_bits >= 8 ? 16 : 2 * format_bits; }

// Element `i` of a chunk of 16 bytes.
uint32_t chunk_element(const uint8_t* chunk, int format_bits, int i);

// codes [rows, depth]. read(address, bytes) is a Result<const uint8_t*>: those bytes, or why they can't be read.
template <class Read>
Result<std::vector<uint32_t>> read_operand(const SharedLayout& layout, const OperandShape& shape,
                                           Read&& read) {
  OCTET_RETURN_IF_ERROR(check_major(layout, shape.major));
  const int bits = format_bits(shape.format), elements = chunk_elements(bits);
  const bool is_k_major = shape.major == Major::kK;
  const int lines = is_k_major ? shape.rows : shape.depth;
  const int chunks = (is_k_major ? shape.depth : shape.rows) / elements;
  std::vector<uint32_t> codes(static_cast<size_t>(shape.rows) * static_cast<size_t>(shape.depth));
  for (int line = 0; line < lines; ++line) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      OCTET_ASSIGN_OR_RETURN(
          const uint8_t* bytes,
          read(chunk_address(layout, shape.major, line, chunk), chunk_used_bytes(bits)));
      for (int i = 0; i < elements; ++i) {
        const int along = chunk * elements + i;
        const int at = is_k_major ? line * shape.depth + along : along * shape.depth + line;
        codes[static_cast<size_t>(at)] = chunk_element(bytes, bits, i);
      }
    }
  }
  return codes;
}

}  // namespace octet::ptxsim::matrix
