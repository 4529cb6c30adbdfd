// SPDX-License-Identifier: Apache-2.0
// An instruction's mutations, as the table of rules.h says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ptxsim/text/tree.h"

namespace octet::mutation {

// What stands in an instruction's place.
struct Change {
  std::string name;  // "removed", "parity", "a swizzle"
  std::vector<ptxsim::text::Statement> instead;
};

// The class of the table that an instruction is in ("wait", "fence"), and the row's opcode; empty: in none.
struct Site {
  std::string_view kind, opcode;
};
Site site_of(const ptxsim::text::Instruction& insn);

// Every change of one; none for an instruction without a row.
std::vector<Change> changes_of(const ptxsim::text::Instruction& insn);

// "mbarrier.try_wait.parity.shared::cta.b64"
std::string dotted(const ptxsim::text::Instruction& insn);

}  // namespace octet::mutation
