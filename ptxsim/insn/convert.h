// SPDX-License-Identifier: Apache-2.0
// The forms of cvt that have two values in a register, or formats of eight bits and less.
#pragma once

#include "ptxsim/insn/binder.h"

namespace octet::ptxsim::insn {

bool is_packed_conversion(const Binder& b);
Status bind_packed_conversion(Binder& b);

}  // namespace octet::ptxsim::insn
