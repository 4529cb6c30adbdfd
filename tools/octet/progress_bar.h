// SPDX-License-Identifier: Apache-2.0
// A bar on stderr for work that takes longer than a second: only on a terminal, at most ten times a second, gone at the end.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/progress.h"

namespace octet::tools {

class ProgressBar {
 public:
  explicit ProgressBar(std::string_view what);
  ~ProgressBar();  // clears the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // For calls that take a Progress; it must not outlive the bar. Empty when stderr is no terminal.
  Progress callback();

 private:
  using Clock = std::chrono::steady_clock;
  void show(int64_t done, int64_t total);

  std::string what_;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point start_, last_;
};

}  // namespace octet::tools
