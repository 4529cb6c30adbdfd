// SPDX-License-Identifier: Apache-2.0
// What a warp's register file holds when it starts: literals, addresses, special registers.
#pragma once

#include <cstdint>
#include <vector>

#include "ptxsim/machine/cta.h"
#include "ptxsim/machine/special.h"

namespace octet::ptxsim::machine {

// A register that nobody has written: as an f32 it is NaN.
constexpr uint32_t kRegisterPoison = 0xFFBADBAD;

// What all warps of a grid begin with; literals are in it.
std::vector<uint32_t> initial_registers(const Program& program);

// What differs between warps: symbols of shared memory and special registers.
void fill_presets(Warp& warp, uint32_t num_sms);

// One special register of one lane. Those that change while a warp runs are not asked here.
uint64_t special_value(const Warp& warp, SpecialRegister which, int lane, uint32_t num_sms);

}  // namespace octet::ptxsim::machine
