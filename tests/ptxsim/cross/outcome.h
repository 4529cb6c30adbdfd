// SPDX-License-Identifier: Apache-2.0
// What a case left, on a device or in the simulator, and the file that a device's outcomes are kept in until they are compared.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "case.h"
#include "octet/status.hpp"

namespace octet::cross {

struct Outcome {
  std::string error;           // why it has no bytes
  std::vector<Bytes> outputs;  // of the buffers that are outputs, in their order
};

// One record behind the others: a program that a device's error ends goes on behind the last one.
Status append_outcome(const std::string& path, const std::string& name, const Outcome& outcome);
// A file that is not there has none.
Result<std::map<std::string, Outcome>> read_outcomes(const std::string& path);

uint64_t digest(const Bytes& bytes);
// Of what a case is: its text, its inputs, its launches.
uint64_t digest(const Case& what);

}  // namespace octet::cross
