// SPDX-License-Identifier: Apache-2.0
// The seeded choices of a run: who goes next, when a pending operation is performed. The same seed, the same run.
#pragma once

#include <cstdint>

namespace octet::ptxsim::machine {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0xD1B54A32D192ED03u) {}

  uint64_t next() {  // splitmix64
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  // 0 to count - 1; 0 for no count.
  uint64_t below(uint64_t count) { return count == 0 ? 0 : next() % count; }
  bool one_in(uint64_t count) { return below(count) == 0; }

 private:
  uint64_t state_;
};

}  // namespace octet::ptxsim::machine
