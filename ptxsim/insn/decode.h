// SPDX-License-Identifier: Apache-2.0
// decode: a kernel of a module's tree as fixed records (machine/program.h), once before it is run.
//
// Every opcode must be one of opcodes.inc, with modifiers and operands that its family knows; every name declared where it is seen;
// %r7 one of %r<8>; operands of the width and kind that the instruction's type wants. What is not is an error, nothing is skipped.
// Errors: kInvalidArgument for what no PTX is, kUnsupported for what is not modelled, each "line 12, column 5: ...".
// Source: PTX ISA 5 (names, spaces), 6.2 (types of operands), 9.4.1 (widths).
#pragma once

#include <string_view>

#include "ptxsim/machine/machine.h"
#include "ptxsim/machine/program.h"
#include "ptxsim/text/tree.h"

namespace octet::ptxsim::insn {

// Variables of .global and .const that stand in a module, as allocations of the machine's memory.
class ModuleData {
 public:
  // Allocates them and writes their initialisers.
  static Result<ModuleData> load(const text::Module& module, machine::GlobalMemory& memory);
  // 0: there is none of this name.
  uint64_t address(std::string_view name) const;

 private:
  std::vector<std::pair<std::string, uint64_t>> at_;
};

// The kernel of this name; an empty name: the only one. A name may be a part of the mangled one if only one kernel has it.
Result<machine::Program> decode(const text::Module& module, std::string_view kernel,
                                const ModuleData& data = {});

}  // namespace octet::ptxsim::insn
