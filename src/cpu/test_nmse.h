// SPDX-License-Identifier: Apache-2.0
// For tests: how far numbers are from those that were wanted.
#pragma once

#include <cstddef>
#include <vector>

namespace octet::cpu {

// sum (got - want)^2 / sum want^2
inline double nmse(const std::vector<double>& got, const std::vector<double>& want) {
  double error = 0, energy = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    energy += want[i] * want[i];
  }
  return error / energy;
}

}  // namespace octet::cpu
