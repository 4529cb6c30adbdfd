// SPDX-License-Identifier: Apache-2.0
// A case in the simulator.
#pragma once

#include "case.h"
#include "outcome.h"
#include "ptxsim/machine/machine.h"

namespace octet::cross {

Outcome simulate(const Case& what, const ptxsim::machine::Settings& settings);

}  // namespace octet::cross
