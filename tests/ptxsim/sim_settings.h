// SPDX-License-Identifier: Apache-2.0
// What the environment says of a simulated run:
//
//   OCTET_PTX        files of PTX, separated by ':': the kernels
//   OCTET_SIM        "late 7": time and seed; "late 7 16": and multiprocessors; "late 7 16 200": and blocks that are there at a time
//   OCTET_SIM_ORDER  report: what the ordering checker finds is no error
//   OCTET_SIM_DEVICE sm120: 100 KiB of shared memory and 1,536 threads a multiprocessor; sm90 otherwise
#pragma once

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "ptxsim/machine/machine.h"

namespace octet::sim {

inline std::vector<std::string> ptx_of_environment() {
  const char* paths = std::getenv("OCTET_PTX");
  std::istringstream in(paths == nullptr ? "" : paths);
  std::vector<std::string> all;
  for (std::string path; std::getline(in, path, ':');) all.push_back(path);
  return all;
}

inline bool is_sm120() {
  const char* text = std::getenv("OCTET_SIM_DEVICE");
  return text != nullptr && std::string(text) == "sm120";
}

// Changes what is set there. False: OCTET_SIM is not, so time and seed are still the caller's.
inline bool take_environment(ptxsim::machine::Settings& settings) {
  using ptxsim::machine::Time;
  if (std::getenv("OCTET_SIM_ORDER") != nullptr)
    settings.order = ptxsim::machine::OrderCheck::kReport;
  if (is_sm120()) {
    settings.sm_shared_bytes = 102400;
    settings.sm_threads = 1536;
  }
  const char* text = std::getenv("OCTET_SIM");
  if (text == nullptr) return false;
  std::istringstream in(text);
  std::string time;
  in >> time >> settings.seed;
  if (uint32_t count = 0; in >> count) {
    settings.num_sms = count;
    if (in >> count) settings.most_resident = count;
  }
  settings.time = time == "late" ? Time::kLate : time == "random" ? Time::kRandom : Time::kEager;
  return true;
}

}  // namespace octet::sim
