// SPDX-License-Identifier: Apache-2.0
// print: a tree as a PTX text that parse reads as the same tree. One declared name a line, numbers in decimal or as bits, no comments.
#pragma once

#include <string>

#include "ptxsim/text/tree.h"

namespace octet::ptxsim::text {

std::string print(const Module& module);
// One line without its indentation, as a report or a trace shows it: "@!%p1 ld.param.u64 %rd1, [p+8];"
std::string print(const Instruction& node);
std::string print(const Operand& node);

}  // namespace octet::ptxsim::text
