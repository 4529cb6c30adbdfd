// SPDX-License-Identifier: Apache-2.0
// What the tensor instructions keep of a block beside its warps: tensor memory, what each thread has under way there, and the groups of
// wgmma.
//
// Rules of tcgen05's threads, each an error (docs/ptxsim.md has them all by their numbers):
//   R1  behind a wait on an mbarrier or a barrier a thread's next mma, cp, ld or st needs fence::after_thread_sync first
//   R2  a thread that has ld or st not waited for, or none of whose fence::before_thread_sync (or commit, for mma and cp) came behind its
//       last tcgen05 access, may not arrive on an mbarrier or come to a barrier
// R2 is stricter than the ISA, which wants the fence only where that arrival is what orders the accesses.
// Source: PTX ISA 9.7.16.6, 9.7.16.11.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "ptxsim/insn/access.h"
#include "ptxsim/machine/tensor_memory.h"

namespace octet::ptxsim::insn {

// Channels of a block's asynchronous operations (machine/async.h). All of tcgen05's mma and cp are one: a pipeline across
// threads is one as well (9.7.16.6.4.3), and what no rule orders TensorMemory::begin refuses. A commit's arrival comes behind them, but
// nothing orders it and another commit's.
constexpr int kTcgen05Channel = 0;
constexpr int kWgmmaChannel = 1;  // + the warpgroup

// Accumulators of a warpgroup that wgmma.mma_async still works on: from the first issue until the last has been performed they live here,
// and their registers hold the poison.
struct WgmmaAccumulator {
  std::vector<machine::Slot> slots;             // a lane's registers
  int rows_of_b = 0;                            // n: chains of one shape alone are ordered
  std::array<std::vector<uint32_t>, 4> values;  // a warp: [register, lane] f32
  int left = 0;                                 // operations to perform
};

struct TensorWarp {
  machine::LaneMask unfenced = 0;     // passed a wait, no fence::after_thread_sync since
  machine::LaneMask unsignalled = 0;  // touched tensor memory, no fence::before_thread_sync since
  int loads = 0, stores = 0;          // to perform
  std::vector<uint32_t> uncommitted;  // tokens of mma and cp that no commit follows yet (order.h)
  std::vector<uint32_t> fenced_registers;  // as wgmma.fence found them; empty: there was none
  machine::AsyncGroups wgmma_groups;
};

class TensorUnit : public machine::CtaExtension {
 public:
  TensorUnit(size_t num_warps, bool copies_follow_products)
      : memory(copies_follow_products), warps(num_warps), accumulators((num_warps + 3) / 4) {}

  std::string left_behind() const override { return memory.left_behind(); }
  void passed_wait(int warp, machine::LaneMask lanes) override { warps[warp].unfenced |= lanes; }
  std::string may_signal(int warp, machine::LaneMask lanes) const override;

  machine::TensorMemory memory;
  uint64_t newest = 0;  // operation of kTcgen05Channel; 0: none, or it has been performed
  std::vector<TensorWarp> warps;
  std::vector<std::vector<std::shared_ptr<WgmmaAccumulator>>>
      accumulators;  // a warpgroup: under way
};

// The block's, which is made where there is none.
TensorUnit& tensor_unit(machine::Exec& x);

// R1 for these lanes, and that they have touched tensor memory: what is wrong, or nothing.
std::string touch_tensor_memory(machine::Exec& x);

// What an mma or a cp of this warp accesses shared memory as; a commit will tell of its end.
AsyncAccess tcgen05_access(machine::Exec& x, const machine::Insn& insn);

// The lanes' common value, of instructions that all lanes give the same; nothing: they differ.
std::optional<uint64_t> common_value(const machine::Exec& x, const machine::Arg& arg,
                                     bool is_address);

}  // namespace octet::ptxsim::insn
