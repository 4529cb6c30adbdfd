// SPDX-License-Identifier: Apache-2.0
#include "progress_bar.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <unistd.h>

namespace octet::tools {

ProgressBar::ProgressBar(std::string_view what)
    : what_(what), terminal_(isatty(STDERR_FILENO) == 1), start_(Clock::now()), last_(start_) {}

ProgressBar::~ProgressBar() {
  if (drawn_) fmt::print(stderr, "\r\x1b[K");
}

Progress ProgressBar::callback() {
  if (!terminal_) return {};
  return [this](int64_t done, int64_t total) { show(done, total); };
}

void ProgressBar::show(int64_t done, int64_t total) {
  constexpr auto kQuiet = std::chrono::seconds(1);
  constexpr auto kEvery = std::chrono::milliseconds(100);
  const Clock::time_point now = Clock::now();
  if (total <= 0 || now - start_ < kQuiet || (drawn_ && now - last_ < kEvery)) return;
  last_ = now;
  drawn_ = true;
  constexpr int64_t kWidth = 32;
  const int64_t filled = std::clamp(done * kWidth / total, int64_t{0}, kWidth);
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  fmt::print(stderr, "\r\x1b[K{} [{:#>{}}{:.>{}}] {:3} %  {:.0f} s", what_, "", filled, "",
             kWidth - filled, done * 100 / total, elapsed);
  std::fflush(stderr);
}

}  // namespace octet::tools
