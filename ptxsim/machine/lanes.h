// SPDX-License-Identifier: Apache-2.0
// The 32 lanes of a warp and sets of them.
#pragma once

#include <bit>
#include <cstdint>

namespace octet::ptxsim::machine {

constexpr int kLanes = 32;
using LaneMask = uint32_t;
constexpr LaneMask kAllLanes = ~LaneMask{0};

template <class F>
void for_each_lane(LaneMask lanes, F f) {
  for (; lanes != 0; lanes &= lanes - 1) f(std::countr_zero(lanes));
}

inline int first_lane(LaneMask lanes) { return std::countr_zero(lanes); }
inline int num_lanes(LaneMask lanes) { return std::popcount(lanes); }

}  // namespace octet::ptxsim::machine
