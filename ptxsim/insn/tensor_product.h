// SPDX-License-Identifier: Apache-2.0
// What the matrix instructions share: operands of shared memory as numbers, and which arithmetic the run wants.
#pragma once

#include "ptxsim/insn/access.h"
#include "ptxsim/matrix/dot.h"
#include "ptxsim/matrix/operand.h"

namespace octet::ptxsim::insn {

// Bytes that nobody has written, or that are not ordered before the operation (order.h): an error; or poison, which is NaN in every format
// of 8 and 16 bits, so that a row or column of the product that a kernel does not look at may be anything (a wgmma has at least 8 columns).
enum class Unset { kRefused, kPoison };

// Reads a matrix by the asynchronous proxy, every chunk with its bounds; only bytes that hold elements.
Result<matrix::Factors> read_factors(const AsyncAccess& by, const matrix::SharedLayout& layout,
                                     const matrix::OperandShape& shape, bool is_negated,
                                     Unset unset);

// `keeps_13_bits`: 8-bit formats on Hopper.
matrix::Arithmetic arithmetic_of(const machine::Machine& machine, bool keeps_13_bits);

}  // namespace octet::ptxsim::insn
