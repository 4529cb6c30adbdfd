// SPDX-License-Identifier: Apache-2.0
// What the matrix instructions share: operands of shared memory as numbers, and which arithmetic the run wants.
#pragma once

#include "ptxsim/insn/access.h"
#include "ptxsim/matrix/dot.h"
#include "ptxsim/matrix/operand.h"

namespace octet::ptxsim::insn {

// Reads a matrix by the asynchronous proxy, every chunk with its bounds; only bytes that hold elements.
Result<matrix::Factors> read_factors(const AsyncAccess& by, const matrix::SharedLayout& layout,
                                     const matrix::OperandShape& shape, bool is_negated);

// `keeps_13_bits`: 8-bit formats on Hopper.
matrix::Arithmetic arithmetic_of(const machine::Machine& machine, bool keeps_13_bits);

}  // namespace octet::ptxsim::insn
