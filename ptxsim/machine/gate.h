// SPDX-License-Identifier: Apache-2.0
// Something that warps come to and pass together: a named barrier, a cluster's barrier, the four warps of a wgmma.
//
// A fragment that comes takes a ticket, the number of the gate's opening that it waits for; once the gate has opened that often it
// passes. So an instruction may be tried as often as the schedule likes and counts once.
#pragma once

#include <cstdint>

#include "ptxsim/machine/order.h"

namespace octet::ptxsim::machine {

struct Gate {
  uint64_t openings = 1;
  uint32_t arrived = 0;  // threads, of this opening
  uint32_t wanted = 0;   // threads; 0: not said yet in this opening
  uint32_t insn = 0;     // a family's own: the instruction of the first to come
  uint64_t value = 0;    // a family's own: what those that came have brought (bar.red)
  uint64_t result = 0;   // the value at the last opening

  Knowledge given, opened;  // of those that came; of those of the last opening

  void open() {
    ++openings;
    arrived = 0;
    wanted = 0;
    result = value;
    opened = given;
    given = {};
    value = 0;
  }
};

}  // namespace octet::ptxsim::machine
