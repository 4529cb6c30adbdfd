// SPDX-License-Identifier: Apache-2.0
// How reports say things: sizes, times, tables, layers, the machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "command.h"
#include "core/shape.h"

namespace octet::tools {

std::string human_bytes(int64_t bytes);                         // "145.7 MB", powers of ten
std::string human_seconds(double seconds);                      // "4.12 ms"
std::string count_text(int64_t count, std::string_view thing);  // "1 layer", "2 layers"

// Rows of cells, columns as wide as their widest cell, two spaces between. The first row is the heading.
void print_table(const std::vector<std::vector<std::string>>& rows);

// "H 5120, I 576, 384 experts, top-6 dsv4, mxfp4 weights, mxfp8 activations"
std::string describe(const LayerSpec& spec);
Json spec_json(const LayerSpec& spec);

std::string device_name();  // of /proc/cpuinfo
int64_t clock_mhz();        // now; 0: unknown

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace octet::tools
