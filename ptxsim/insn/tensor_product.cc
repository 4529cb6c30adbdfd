// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/insn/tensor_product.h"

namespace octet::ptxsim::insn {

Result<matrix::Factors> read_factors(const AsyncAccess& by, const matrix::SharedLayout& layout,
                                     const matrix::OperandShape& shape, bool is_negated) {
  uint8_t chunk[matrix::kChunkBytes];
  const auto read = [&](uint32_t address, int bytes) -> Result<const uint8_t*> {
    const uint64_t at = address | uint64_t{by.cta->rank} << machine::kRankShift;
    OCTET_RETURN_IF_ERROR(async_read(by, Space::kShared, at, static_cast<uint64_t>(bytes), chunk));
    return static_cast<const uint8_t*>(chunk);
  };
  auto codes = matrix::read_operand(layout, shape, read);
  if (!codes.ok()) return codes.status();
  return matrix::Factors(shape.format, *codes, shape.rows, shape.depth, is_negated);
}

matrix::Arithmetic arithmetic_of(const machine::Machine& machine, bool keeps_13_bits) {
  if (!machine.settings().truncates_products) return matrix::kExactSum;
  return keeps_13_bits ? matrix::kTruncated13 : matrix::kTruncated25;
}

}  // namespace octet::ptxsim::insn
