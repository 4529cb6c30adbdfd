// SPDX-License-Identifier: Apache-2.0
// The modifiers that instructions of memory share: order, scope, space.
#pragma once

#include "ptxsim/insn/access.h"
#include "ptxsim/insn/binder.h"

namespace octet::ptxsim::insn {

enum Order { kWeak, kVolatile, kRelaxed, kAcquire, kRelease, kAcqRel, kSc, kMmio };

// PTX ISA 8.4 (order), 8.5 (scope), 5.1 (space). kWeak where none is written.
int take_order(Binder& b);
// -1: none is written.
int take_scope(Binder& b);  // cta cluster gpu sys
Space take_space(Binder& b);

}  // namespace octet::ptxsim::insn
