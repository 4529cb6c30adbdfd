// SPDX-License-Identifier: Apache-2.0
// The functions that opcodes.inc names.
#pragma once

#include "ptxsim/insn/binder.h"

namespace octet::ptxsim::insn {

#define OCTET_PTX_OPCODE(name, bind) Status bind(Binder& b);
#include "ptxsim/insn/opcodes.inc"
#undef OCTET_PTX_OPCODE

}  // namespace octet::ptxsim::insn
