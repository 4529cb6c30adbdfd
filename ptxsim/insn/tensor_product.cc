// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/insn/tensor_product.h"

#include <cstring>

namespace octet::ptxsim::insn {

namespace {

// As async_read, but what nobody has written is no error, and what is not ordered before the operation is poison, too.
Status read_poisoned(const AsyncAccess& by, uint64_t address, uint64_t bytes, uint8_t* to) {
  Located at;
  const std::string wrong = locate(*by.machine, *by.cta, by.cta->warps[by.warp].get(), 0,
                                   Space::kShared, address, bytes, &at);
  if (!wrong.empty()) return async_error(*by.cta, *by.insn, wrong);
  machine::Order* order = by.token == 0 ? nullptr : order_of(*by.cta);
  if (order != nullptr && !order->is_fenced(by.token, by.cta->rank, at.offset, bytes).empty()) {
    std::memset(to, machine::kPoison, bytes);
    return {};
  }
  if (order != nullptr) order->async_read(by.token, by.cta->rank, at.offset, bytes);
  std::memcpy(to, at.memory->at(at.offset), bytes);
  return {};
}

}  // namespace

Result<matrix::Factors> read_factors(const AsyncAccess& by, const matrix::SharedLayout& layout,
                                     const matrix::OperandShape& shape, bool is_negated,
                                     Unset unset) {
  uint8_t chunk[matrix::kChunkBytes];
  const auto read = [&](uint32_t address, int bytes) -> Result<const uint8_t*> {
    const uint64_t at = address | uint64_t{by.cta->rank} << machine::kRankShift;
    const auto count = static_cast<uint64_t>(bytes);
    OCTET_RETURN_IF_ERROR(unset == Unset::kPoison
                              ? read_poisoned(by, at, count, chunk)
                              : async_read(by, Space::kShared, at, count, chunk));
    return static_cast<const uint8_t*>(chunk);
  };
  auto codes = matrix::read_operand(layout, shape, read);
  if (!codes.ok()) return codes.status();
  return matrix::Factors(shape.format, *codes, shape.rows, shape.depth, is_negated);
}

matrix::Arithmetic arithmetic_of(const machine::Machine& machine, bool keeps_13_bits) {
  if (machine.settings().arithmetic == machine::Arithmetic::kExact) return matrix::kExactSum;
  return keeps_13_bits ? matrix::kTruncated13 : matrix::kTruncated25;
}

}  // namespace octet::ptxsim::insn
