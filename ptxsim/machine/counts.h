// SPDX-License-Identifier: Apache-2.0
// What a run is made of, in numbers: of the machine, of each grid, of the block that has most of it.
//
// They are the kernel's, not a device's: instructions of PTX, not of machine code; copies in flight with each operation as late as
// Time::kLate lets it be.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace octet::ptxsim::machine {

struct Counts {
  uint64_t instructions = 0;       // of warps
  uint64_t lane_instructions = 0;  // of lanes
  uint64_t polls = 0;              // waits that found nothing, of instructions
  uint64_t global_read_bytes = 0, global_written_bytes = 0;  // by lanes and by copies
  uint64_t copied_bytes = 0;  // of those read: by asynchronous copies
  uint64_t async_ops = 0;
  uint64_t products = 0;  // mma.sync, tcgen05.mma, wgmma of a warpgroup

  // Each number's sum, difference and maximum.
  Counts& operator+=(const Counts& other);
  Counts operator-(const Counts& other) const;
  void raise_to(const Counts& other);
};

struct GridCounts {
  std::string kernel;
  uint64_t blocks = 0;
  uint32_t threads = 0,
           shared_bytes = 0;   // of a block; the latter with what is reserved for the system
  uint64_t blocks_per_sm = 0;  // that its shared memory and threads let stand beside each other
  uint64_t waves = 0;          // of so many blocks on each multiprocessor
  uint64_t begun_early = 0;    // blocks that began before the grid ahead had ended
  Counts all;
  Counts most;  // of a block, each number by itself
  // Of a block: the most that its asynchronous copies had issued of global memory and not performed at one time, bytes as an
  // mbarrier counts them. 0 in eager time.
  uint64_t most_bytes_in_flight = 0;
  std::map<std::string, uint64_t> read_bytes;  // global memory: by the allocation's name
};

// One object of one line.
std::string json_of(const GridCounts& counts);

}  // namespace octet::ptxsim::machine
