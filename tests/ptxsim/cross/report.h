// SPDX-License-Identifier: Apache-2.0
// A device's outcomes beside the simulator's: the report, and what is asked of the simulator later without a device.
//
//   {"device": {...}, "cases": [{"name", "case": digest, "outputs": [digests of the device's bytes], "needs"?, "error"?, "differs"?}]}
//
// "differs": {"model": {"elements", "of", "first", "device", "simulator", "most_apart"}}, or a sentence where there are no bytes: of each
// model of sums (or with and without tables) under which bytes differ. A case whose needs are met and that differs is unproven.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "case.h"
#include "outcome.h"
#include "ptxsim/machine/machine.h"

namespace octet::cross {

struct Comparison {
  std::vector<Case> cases;
  std::map<std::string, Outcome> device;
  std::string device_description = "{}";
  std::string date, command;
  bool has_tables = false;  // the simulator's approximations are the device's
  int threads = 1;
  std::string differing;  // a file for the outcomes that differ; empty: none
};

// Simulates each case, writes the report and prints what differs.
Status compare(const Comparison& comparison, const std::string& report);

// Who runs the cases that a kept report is asked for, and which.
struct Check {
  std::function<Outcome(const Case&)> run;
  bool asks_unproven = false;  // a device: its bytes are the report's, whatever the simulator's are
  bool has_tables = false;
  int threads = 1;
};

// The simulator as a check runs it.
Outcome simulate_as_needed(const Case& what, ptxsim::machine::Settings settings);

// Runs each case of which the report has the device's digests, and wants these. kInternal: some have others, or the report does not know
// them as they are. What is not asked, since it is unproven or needs tables, is named.
Status check(const std::vector<Case>& cases, const std::string& report, const Check& check);

}  // namespace octet::cross
