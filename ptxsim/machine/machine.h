// SPDX-License-Identifier: Apache-2.0
// The machine: global memory and the kernels that are run on it, one after the other.
//
//   Machine machine(settings);
//   uint64_t x = machine.memory().allocate("x", 4096);
//   machine.run({{.program = &program, .grid = {4}, .block = {256}, .parameters = bytes}});
//
// Blocks and warps go on in any order that the seed draws. A run ends with the last thread and the last pending operation, or with
// the first error, or when nothing can go on: then the Status says where everything stands.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "octet/status.hpp"
#include "ptxsim/machine/async.h"
#include "ptxsim/machine/counts.h"
#include "ptxsim/machine/cta.h"
#include "ptxsim/machine/memory.h"
#include "ptxsim/machine/program.h"
#include "ptxsim/machine/random.h"

namespace octet::ptxsim::machine {

// How a tensor core sums (matrix/dot.h).
enum class Arithmetic {
  kExact,      // the exact sum, rounded once to nearest
  kTruncated,  // the published model of the hardware: aligned to the largest, cut, rounded towards zero
};

// What the ordering checker (order.h) finds: nothing is asked, it is kept in Machine::reports, it ends the run.
enum class OrderCheck { kOff, kReport, kError };

struct Settings {
  Time time = Time::kEager;
  uint64_t seed = 1;
  uint32_t most_resident = 64;                   // blocks
  uint64_t most_instructions = 200'000'000'000;  // warp instructions: a run beyond has not ended
  // Reads of bytes that nobody has written are errors; else they give the poison. nvcc moves loads of shared memory in front of the
  // branch that says whether they are needed: an error there is for kernels that it has not done this to.
  bool refuses_unset_reads = true;
  bool refuses_unset_shared_reads = false;
  OrderCheck order = OrderCheck::kError;
  uint32_t num_sms = 132;  // %nsmid
  // Of a multiprocessor, what a block reserves for the system with them: 228 KiB and 2048 threads, sm_90 and sm_100.
  uint32_t sm_shared_bytes = 233472, sm_threads = 2048;
  Arithmetic arithmetic = Arithmetic::kExact;
  // tcgen05.cp behind an mma that reads its target, or behind another cp to it, is no race: others' kernels rely on it (tensor_memory.h).
  bool copies_follow_products = false;
};

struct Launch {
  const Program* program = nullptr;
  Dim3 grid, block;
  Dim3 cluster;  // a program's own .reqnctapercluster goes before it
  uint32_t dynamic_shared_bytes = 0;
  std::vector<uint8_t> parameters;  // Program::parameter_bytes
  bool is_programmatic = false;     // may start when the launch before it lets it (griddepcontrol)
};

// Called before each instruction that a warp runs.
using Trace = std::function<void(const Cta&, const Warp&, LaneMask, const Insn&)>;

class Machine {
 public:
  explicit Machine(const Settings& settings) : settings_(settings), random_(settings.seed) {}

  GlobalMemory& memory() { return memory_; }
  const Settings& settings() const { return settings_; }
  const Counts& counts() const { return counts_; }
  Counts& counts() { return counts_; }
  // Of the last run's grids, in the order of their launches; of blocks that have ended.
  const std::vector<GridCounts>& grid_counts() const { return grid_counts_; }
  Random& random() { return random_; }
  // What the checker has found, and how often: kReport.
  const std::map<std::string, uint64_t>& reports() const { return reports_; }
  void report(std::string what) { ++reports_[std::move(what)]; }
  uint64_t now() const { return counts_.instructions; }
  void set_trace(Trace trace) { trace_ = std::move(trace); }

  // The launches in the order of a stream.
  Status run(std::span<const Launch> launches);
  Status run(const Launch& launch) { return run({&launch, 1}); }

 private:
  friend class Schedule;
  Settings settings_;
  Random random_;
  GlobalMemory memory_;
  Counts counts_;
  std::vector<GridCounts> grid_counts_;
  uint64_t grids_made_ = 0;
  std::map<std::string, uint64_t> reports_;
  Trace trace_;
};

}  // namespace octet::ptxsim::machine
