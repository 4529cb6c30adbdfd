// SPDX-License-Identifier: Apache-2.0
// A warp: 32 lanes, their registers, and where they are.
//
// Lanes that are at the same instruction are one Fragment; a branch that lanes take differently splits it, and fragments that come to
// the same instruction are one again. Any fragment may go on at any time (independent thread scheduling, PTX ISA 3.1 and 9.7.13).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "ptxsim/machine/async.h"
#include "ptxsim/machine/lanes.h"
#include "ptxsim/machine/memory.h"

namespace octet::ptxsim::machine {

struct Cta;

struct Fragment {
  uint32_t pc = 0;
  LaneMask lanes = 0;
  bool is_blocked = false;
  uint64_t ticket = 0;  // of the barrier that it stands at (Gate), 0: at none
  // What its last polls saw, so that one that sees the same again makes no progress.
  std::array<uint64_t, 4> polls{};
  uint8_t next_poll = 0;
};

struct Warp {
  Cta* cta = nullptr;
  int index = 0;                    // in the block
  std::vector<uint32_t> registers;  // Program::num_words
  std::vector<Fragment> fragments;
  LaneMask live = 0;                            // lanes that have not exited
  uint64_t cluster_ticket = 0;                  // of barrier.cluster.arrive, until the wait
  std::array<AsyncGroups, kLanes> copy_groups;  // cp.async
  std::vector<uint64_t> copies_in_flight;  // cp.async: ids, of which some are performed already
  std::array<AsyncGroups, kLanes> bulk_groups;       // cp.async.bulk, until written
  std::array<AsyncGroups, kLanes> bulk_read_groups;  // the same, until read
  uint64_t fenced_global_at = 0;  // tick of the last fence.proxy.async of global memory
  std::vector<std::unique_ptr<Memory>> local;  // a lane's .local, made when it is used
};

}  // namespace octet::ptxsim::machine
