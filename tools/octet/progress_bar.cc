// SPDX-License-Identifier: Apache-2.0
#include "progress_bar.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <unistd.h>

#include "console.h"

namespace octet::tools {
namespace {

constexpr auto kQuiet = std::chrono::seconds(1);
constexpr auto kEvery = std::chrono::milliseconds(100);
constexpr int64_t kWidth = 32;

bool is_terminal() { return isatty(STDERR_FILENO) == 1; }

void clear_line() { print_err("\r\x1b[K"); }

}  // namespace

ProgressBar::ProgressBar(std::string_view what)
    : what_(what), terminal_(is_terminal()), start_(Clock::now()), last_(start_) {}

ProgressBar::~ProgressBar() {
  if (drawn_) clear_line();
}

Progress ProgressBar::callback() {
  if (!terminal_) return {};
  return [this](int64_t done, int64_t total) { show(done, total); };
}

void ProgressBar::show(int64_t done, int64_t total) {
  const Clock::time_point now = Clock::now();
  if (total <= 0 || now - start_ < kQuiet || (drawn_ && now - last_ < kEvery)) return;
  last_ = now;
  drawn_ = true;
  const int64_t filled = std::clamp(done * kWidth / total, int64_t{0}, kWidth);
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  print_err("\r\x1b[K{} [{:#>{}}{:.>{}}] {:3} %  {:.0f} s", what_, "", filled, "", kWidth - filled,
            done * 100 / total, elapsed);
}

BusyBar::BusyBar(std::string_view what) : what_(what) {
  if (is_terminal()) thread_ = std::thread([this] { draw_until_done(); });
}

BusyBar::~BusyBar() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void BusyBar::draw_until_done() {
  constexpr int64_t kMark = 4;
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, kQuiet, [this] { return done_; })) return;
  const int64_t turn = kWidth - kMark;
  for (int64_t step = 0;; ++step) {
    const int64_t at = turn - std::abs(step % (2 * turn) - turn);
    print_err("\r\x1b[K{} [{:.>{}}{:#>{}}{:.>{}}]  {:.0f} s", what_, "", at, "", kMark, "",
              turn - at, std::chrono::duration<double>(kQuiet + step * kEvery).count());
    if (changed_.wait_for(lock, kEvery, [this] { return done_; })) break;
  }
  clear_line();
}

}  // namespace octet::tools
