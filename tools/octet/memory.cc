// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <limits>
#include <string>

#include "report.h"

namespace octet::tools {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// The number behind `key` in a file of keys and numbers; `missing` without one.
int64_t number_of(const char* path, std::string_view key, int64_t missing) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    int64_t value = 0;
    if (word == key && file >> value) return value;
  }
  return missing;
}

// What a control group leaves; a missing file or "max" allows everything.
int64_t cgroup_bytes() {
  int64_t limit = 0;
  int64_t used = 0;
  std::ifstream("/sys/fs/cgroup/memory.max") >> limit;
  std::ifstream("/sys/fs/cgroup/memory.current") >> used;
  if (limit <= 0) return kNoLimit;
  constexpr const char* kStat = "/sys/fs/cgroup/memory.stat";
  used -= number_of(kStat, "inactive_file", 0) + number_of(kStat, "active_file", 0);
  return std::max<int64_t>(limit - std::max<int64_t>(used, 0), 0);
}

}  // namespace

int64_t available_memory_bytes() {
  const int64_t kilobytes = number_of("/proc/meminfo", "MemAvailable:", kNoLimit / 1024);
  return std::min(kilobytes * 1024, cgroup_bytes());
}

Status check_memory(std::string_view what, int64_t bytes) {
  const int64_t found = available_memory_bytes();
  if (bytes <= found) return {};
  return Status{Code::kOutOfMemory,
                fmt::format("{}: needs {}, want at most the {} that are available", what,
                            human_bytes(bytes), human_bytes(found))};
}

}  // namespace octet::tools
