// SPDX-License-Identifier: Apache-2.0
// A device's outcomes beside the simulator's: the report, and what is asked of the simulator later without a device.
//
//   {"device": {...}, "cases": [{"name", "case": digest, "outputs": [digests of the device's bytes], "needs"?, "error"?, "differs"?}]}
//
// "differs": {"model": {"elements", "of", "first", "device", "simulator", "most_apart"}}, or a sentence where there are no bytes: of each
// model of sums (or with and without tables) under which bytes differ. A case whose needs are met and that differs is unproven.
#pragma once

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

// Simulates each case and writes the report. kInternal: some differ, which the report lists.
Status compare(const Comparison& comparison, const std::string& report);

// Simulates each case of which the report has the device's digests, and wants these. Cases that were unproven, or need tables where there
// are none, are named and not asked.
Status check(const std::vector<Case>& cases, const std::string& report,
             const ptxsim::machine::Settings& settings, bool has_tables, int threads);

}  // namespace octet::cross
