// SPDX-License-Identifier: Apache-2.0
#include "bench_quiet.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

namespace octet::tools {
namespace {

// The numbers that name entries of a folder: processes or tasks. Streams and directory iterators would take several times as long.
std::vector<pid_t> numbers_in(const std::string& folder) {
  std::vector<pid_t> numbers;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), ::closedir);
  if (!dir) return numbers;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string_view name = entry->d_name;
    pid_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc() && end == name.data() + name.size()) numbers.push_back(number);
  }
  return numbers;
}

std::optional<SchedTime> read_schedstat(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  char text[128];
  const ssize_t bytes = ::read(fd, text, sizeof text);
  ::close(fd);
  if (bytes <= 0) return {};
  return parse_schedstat({text, static_cast<size_t>(bytes)});
}

// All tasks of a process; those that end meanwhile count nothing.
SchedTime time_of(const std::string& proc, pid_t pid) {
  const std::string tasks = proc + "/" + std::to_string(pid) + "/task";
  SchedTime sum;
  for (const pid_t task : numbers_in(tasks)) {
    const auto time = read_schedstat(tasks + "/" + std::to_string(task) + "/schedstat");
    if (!time) continue;
    sum.run_ns += time->run_ns;
    sum.wait_ns += time->wait_ns;
  }
  return sum;
}

}  // namespace

std::optional<SchedTime> parse_schedstat(std::string_view text) {
  int64_t numbers[3] = {};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int64_t& number : numbers) {
    while (at != end && *at == ' ') ++at;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 0) return {};
    at = next;
  }
  while (at != end && (*at == ' ' || *at == '\n')) ++at;
  if (at != end) return {};
  return SchedTime{numbers[0], numbers[1]};
}

QuietMeter::QuietMeter(std::vector<pid_t> own, std::string proc)
    : own_(std::move(own)), proc_(std::move(proc)) {}

Status QuietMeter::check_readable(const std::string& proc) {
  const std::string path = proc + "/self/schedstat";
  // A process that has just begun may not have been counted yet.
  constexpr auto kMostWait = std::chrono::milliseconds(50);
  const auto begin = std::chrono::steady_clock::now();
  auto time = read_schedstat(path);
  while (time && time->run_ns == 0 && std::chrono::steady_clock::now() - begin < kMostWait)
    time = read_schedstat(path);
  if (!time) {
    return unsupported("--quiet-only: cannot read " + path +
                       ", want a Linux kernel that counts what tasks run and wait");
  }
  if (time->run_ns == 0) {
    return unsupported("--quiet-only: " + path + " says that this process never ran, want counts");
  }
  return {};
}

QuietMeter::Moment QuietMeter::look(pid_t tested) const {
  Moment moment;
  for (const pid_t pid : numbers_in(proc_)) {
    const bool is_own = std::find(own_.begin(), own_.end(), pid) != own_.end();
    if (is_own && pid != tested) continue;
    const SchedTime time = time_of(proc_, pid);
    if (is_own) {
      moment.waited_ns = time.wait_ns;
    } else {
      moment.foreign_run_ns[pid] = time.run_ns;
    }
  }
  return moment;
}

bool QuietMeter::is_quiet(const Moment& before, const Moment& after, double seconds) {
  int64_t foreign_ns = 0;
  for (const auto& [pid, run_ns] : after.foreign_run_ns) {
    const auto then = before.foreign_run_ns.find(pid);
    // A new process ran only since then; that of one that has ended is lost.
    foreign_ns +=
        run_ns - (then == before.foreign_run_ns.end() ? 0 : std::min(then->second, run_ns));
  }
  const double budget_ns = seconds * 1e9;
  return static_cast<double>(foreign_ns) < kMostForeign * budget_ns &&
         static_cast<double>(after.waited_ns - before.waited_ns) <
             std::max(kMostWaited * budget_ns, kLeastWaitedNs);
}

void QuietMeter::begin(pid_t tested) {
  tested_ = tested;
  since_begin_ = {};
  before_ = look(tested);
}

bool QuietMeter::end() {
  const double seconds = since_begin_.seconds();
  return is_quiet(before_, look(tested_), seconds);
}

bool QuietMeter::wait_until_quiet(double seconds) {
  constexpr std::chrono::milliseconds kLook(20);
  constexpr std::chrono::milliseconds kPause(50);
  const Stopwatch watch;
  for (;;) {
    begin(0);
    std::this_thread::sleep_for(kLook);
    if (end()) return true;
    if (watch.seconds() > seconds) return false;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace octet::tools
