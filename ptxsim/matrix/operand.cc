// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/matrix/operand.h"

namespace octet::ptxsim::matrix {

uint32_t chunk_element(const uint8_t* chunk, int format_bits, int i) {
  const int first = i * format_bits, byte = first / 8, shift = first % 8;
  uint32_t word = chunk[byte];
  if (shift + format_bits > 8) word |= uint32_t{chunk[byte + 1]} << 8;
  return word >> shift & ((1U << format_bits) - 1);
}

}  // namespace octet::ptxsim::matrix
