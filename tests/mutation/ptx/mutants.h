// SPDX-License-Identifier: Apache-2.0
// The mutants of a module's kernels: one change at one site each (changes.h), and each conditional branch that decides whether a site is come
// to, negated.
//
// A mutant's name lasts while the kernel's text moves: KERNEL/FUNCTION/OPCODE#N/CHANGE, where FUNCTION is the kernel's own that the
// instruction was inlined from (not a wrapper of one instruction), N counts its like in that function.
#pragma once

#include <string>
#include <vector>

#include "ptxsim/text/tree.h"

namespace octet::mutation {

struct Mutant {
  std::string name;
  std::string kind;          // of the site: "wait"
  std::string where;         // "gemm_roles.cuh:65"
  std::string text;          // the instruction
  size_t item = 0;           // of the module
  std::vector<size_t> path;  // to the statement, scope by scope
  std::vector<ptxsim::text::Statement> instead;
};

std::vector<Mutant> find_mutants(const ptxsim::text::Module& module);

ptxsim::text::Module mutated(ptxsim::text::Module module, const Mutant& mutant);

}  // namespace octet::mutation
