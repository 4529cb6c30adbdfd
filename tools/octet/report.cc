// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <string_view>

#include "console.h"

namespace octet::tools {
namespace {

// The value of the first line "key : value" of /proc/cpuinfo.
std::string cpuinfo(std::string_view key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find(':');
    if (colon != std::string::npos && colon + 2 <= line.size()) return line.substr(colon + 2);
  }
  return {};
}

}  // namespace

std::string human_bytes(int64_t bytes) {
  constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1000.0 && unit + 1 < kUnits.size()) {
    value /= 1000.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string human_seconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1.0) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string count_text(int64_t count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const bool last = c + 1 == row.size();
      line += last ? row[c] : fmt::format("{:<{}}  ", row[c], widths[c]);
    }
    print_out("{}\n", line);
  }
}

std::string describe(const LayerSpec& s) {
  std::string experts = count_text(s.experts, "expert");
  if (s.local_experts != s.experts) {
    experts += fmt::format(" ({}..{} here)", s.first_expert, s.first_expert + s.local_experts - 1);
  }
  return fmt::format("H {}, I {}, {}, top-{} {}, {} weights, {} activations", s.hidden,
                     s.intermediate, experts, s.router.top_k, name_of(s.router.kind),
                     name_of(s.weights), name_of(s.activations));
}

Json spec_json(const LayerSpec& s) {
  return {{"hidden", s.hidden},
          {"intermediate", s.intermediate},
          {"experts", s.experts},
          {"first_expert", s.first_expert},
          {"local_experts", s.local_experts},
          {"router", name_of(s.router.kind)},
          {"top_k", s.router.top_k},
          {"router_scale", s.router.scale},
          {"weights", name_of(s.weights)},
          {"activations", name_of(s.activations)},
          {"shared_experts", s.has_shared_experts}};
}

std::string device_name() {
  const std::string name = cpuinfo("model name");
  return name.empty() ? "unknown CPU" : name;
}

int64_t clock_mhz() { return static_cast<int64_t>(std::atof(cpuinfo("cpu MHz").c_str())); }

}  // namespace octet::tools
