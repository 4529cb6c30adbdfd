// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <limits>
#include <string>
#include <sys/resource.h>

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

// What a limit of this process (ulimit) leaves beside what `key` says is used.
int64_t limit_bytes(__rlimit_resource_t resource, std::string_view key) {
  rlimit limit = {};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur > rlim_t{kNoLimit}) return kNoLimit;
  const int64_t used = number_of("/proc/self/status", key, 0) * 1024;
  return std::max<int64_t>(static_cast<int64_t>(limit.rlim_cur) - used, 0);
}

}  // namespace

int64_t available_memory_bytes() {
  const int64_t kilobytes = number_of("/proc/meminfo", "MemAvailable:", kNoLimit / 1024);
  return std::min({kilobytes * 1024, cgroup_bytes(), limit_bytes(RLIMIT_AS, "VmSize:"),
                   limit_bytes(RLIMIT_DATA, "VmData:")});
}

Status check_memory(std::string_view what, int64_t bytes) {
  const int64_t found = available_memory_bytes();
  if (bytes <= found) return {};
  return Status{Code::kOutOfMemory,
                fmt::format("{}: needs {}, want at most the {} that are available", what,
                            human_bytes(bytes), human_bytes(found))};
}

Status check_memory_of_device_load(const checkpoint::LayerTensors& tensors) {
  if (!tensors.packed) return {};
  return check_memory("taking the layer out of its panels", tensors.weight_bytes());
}

}  // namespace octet::tools
