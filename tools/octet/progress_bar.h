// SPDX-License-Identifier: Apache-2.0
// A bar on stderr for work that takes longer than a second: only on a terminal, at most ten times a second, gone at the end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

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

// For a kernel's call, which cannot say how far it is: a mark that moves to and fro, drawn by a thread of its own that
// sleeps in between. Without a terminal there is no thread.
class BusyBar {
 public:
  explicit BusyBar(std::string_view what);
  ~BusyBar();  // clears the line
  BusyBar(const BusyBar&) = delete;
  BusyBar& operator=(const BusyBar&) = delete;

 private:
  void draw_until_done();

  std::string what_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace octet::tools
