// SPDX-License-Identifier: Apache-2.0
// Whether the machine was quiet while something was timed, from the scheduler's counts in /proc (Linux): how long other tasks
// ran and how long the tested process waited for a core. What runs outside this machine's /proc (beside a container, on the
// other half of a core) is not seen.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "octet/status.hpp"
#include "report.h"

namespace octet::tools {

// A task's or a process's time so far, in nanoseconds.
struct SchedTime {
  int64_t run_ns = 0;   // on a core
  int64_t wait_ns = 0;  // ready, but without one
};

// "RUN WAIT SLICES", a /proc/PID/task/TID/schedstat; nothing if it is none.
std::optional<SchedTime> parse_schedstat(std::string_view text);

class QuietMeter {
 public:
  // A core's share that all other tasks together may take, and of the time that the tested process may wait.
  static constexpr double kMostForeign = 0.04;
  static constexpr double kMostWaited = 0.03;
  // Less than this it may always wait: threads that a turn wakes wait for each other's first processor.
  static constexpr double kLeastWaitedNs = 200e3;

  // `own`: this process and its peers, of which one at a time runs. `proc` is /proc but in tests.
  explicit QuietMeter(std::vector<pid_t> own, std::string proc = "/proc");
  // Refused where the counts cannot be read, or stand still.
  static Status check_readable(const std::string& proc = "/proc");

  // Around what is timed; `tested` is one of `own`. Of end(): whether it was quiet.
  void begin(pid_t tested);
  bool end();
  // Whether no other task took its share of 20 ms; looks again until then, for `seconds` at most.
  bool wait_until_quiet(double seconds);

  // What end() compares, for two moments `seconds` apart.
  struct Moment {
    std::map<pid_t, int64_t> foreign_run_ns;  // by process
    int64_t waited_ns = 0;                    // by the tested one
  };
  static bool is_quiet(const Moment& before, const Moment& after, double seconds);
  Moment look(pid_t tested) const;

 private:
  std::vector<pid_t> own_;
  std::string proc_;
  pid_t tested_ = 0;
  Moment before_;
  Stopwatch since_begin_;
};

}  // namespace octet::tools
