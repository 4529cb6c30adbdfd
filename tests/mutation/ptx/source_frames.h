// SPDX-License-Identifier: Apache-2.0
// Whose line an instruction comes from: the .loc directives in front of it, through everything that was inlined (PTX ISA 11.5.3, 11.5.4).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ptxsim/text/tree.h"

namespace octet::mutation {

struct Frame {
  std::string function;  // "load_weights"; the kernel's name where nothing was inlined
  std::string where;     // "gemm_roles.cuh:65"
};

// Of a module, fed with one kernel's locations in the order of the text.
class SourceFrames {
 public:
  explicit SourceFrames(const ptxsim::text::Module& module);
  void begin(const std::string& kernel);
  const std::string& kernel() const { return kernel_; }  // "experts_kernel<8, true>"
  void see(const ptxsim::text::Location& location);
  // The innermost frame that is no wrapper of an instruction.
  Frame current() const;

 private:
  std::map<uint64_t, std::string> files_;
  std::map<std::string, std::string> functions_;  // by label of .debug_str
  std::string kernel_;
  std::vector<ptxsim::text::Location> seen_;
};

}  // namespace octet::mutation
