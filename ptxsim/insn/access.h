// SPDX-License-Identifier: Apache-2.0
// How instructions and asynchronous operations reach memory: bounds, alignment, what is written and what is not, and the ordering
// checker's eyes all stand behind these functions. Nothing else touches a block's shared memory or the global memory.
//
// Source: PTX ISA 5.1 (spaces), 9.7.9.1 (generic addresses), 5.1.8 (shared::cluster).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ptxsim/machine/exec.h"

namespace octet::ptxsim::insn {

enum class Space { kGeneric, kGlobal, kConst, kShared, kSharedCluster, kParam, kLocal };

// Which proxy touches memory (PTX ISA 8.6): ordinary instructions the generic one; bulk and tensor copies, wgmma, tcgen05.mma and
// tcgen05.cp the asynchronous one.
enum class Proxy : uint8_t { kGeneric, kAsync };

struct Located {
  machine::Memory* memory = nullptr;
  uint64_t offset = 0;
  machine::Cta* shared_of = nullptr;          // shared memory: whose
  machine::Allocation* allocation = nullptr;  // global memory: which
};

// Where [address, address + bytes) is, of this block (and, for kLocal, this warp's lane). Empty: found; else what is wrong.
std::string locate(machine::Machine& machine, machine::Cta& cta, machine::Warp* warp, int lane,
                   Space space, uint64_t address, uint64_t bytes, Located* at);

// One lane's access by the generic proxy, aligned to its bytes. Null: x.error says why.
// kStrong: volatile, relaxed, acquire, release.
const uint8_t* read_lane(machine::Exec& x, const machine::Insn& insn, Space space, uint64_t address,
                         uint32_t bytes, int lane,
                         machine::AccessKind kind = machine::AccessKind::kPlain);
uint8_t* write_lane(machine::Exec& x, const machine::Insn& insn, Space space, uint64_t address,
                    uint32_t bytes, int lane,
                    machine::AccessKind kind = machine::AccessKind::kPlain);
// Read and written: atomics. The bytes must be set.
uint8_t* update_lane(machine::Exec& x, const machine::Insn& insn, Space space, uint64_t address,
                     uint32_t bytes, int lane);

// What an asynchronous operation reads and writes when it is performed.
struct AsyncAccess {
  machine::Machine* machine;
  machine::Cta* cta;  // that issued it
  const machine::Insn* insn;
  int warp = 0;
  Proxy proxy = Proxy::kAsync;
  uint32_t token = 0;  // of the ordering checker; 0: its accesses are not asked
  uint64_t global_until =
      0;  // what the generic proxy wrote to global memory up to this tick may be read
};
// Of an operation that this instruction issues. `reads`: it reads shared memory.
AsyncAccess async_access(machine::Exec& x, const machine::Insn& insn, Proxy proxy, bool reads);

// The ordering checker of the block's cluster, or null, and the number that this warp has there.
inline machine::Order* order_of(const machine::Cta& cta) { return cta.cluster->order.get(); }
inline uint32_t order_warp(const machine::Exec& x) {
  return order_of(x.cta)->warp_of(x.cta.rank, x.warp.index);
}
Status async_read(const AsyncAccess& by, Space space, uint64_t address, uint64_t bytes,
                  uint8_t* to);
Status async_write(const AsyncAccess& by, Space space, uint64_t address, uint64_t bytes,
                   const uint8_t* from);
// At issue: what will be written holds no value until then.
Status async_poison(const AsyncAccess& by, Space space, uint64_t address, uint64_t bytes);
// mbarrier at a shared::cluster address: complete_tx, or an arrival (tcgen05.commit, cp.async.mbarrier.arrive).
Status async_complete(const AsyncAccess& by, uint64_t mbarrier, int64_t bytes);
// `behind`: tokens of the operations that the arrival says are complete.
Status async_arrive(const AsyncAccess& by, uint64_t mbarrier, int64_t count,
                    std::span<const uint32_t> behind = {});

// All lanes of the four warps of a warpgroup come to `insn` (wgmma): kNext for each once `when_all` has run, for the last of them.
// Its Exec is the last one's; the others' registers are those of warpgroup_warps.
using WhenAll = Status (*)(machine::Exec& x, const machine::Insn& insn);
machine::Outcome gather_warpgroup(machine::Exec& x, const machine::Insn& insn, WhenAll when_all);
// The warps 4g to 4g + 3 of the group that this warp is in.
machine::Warp& warpgroup_warp(machine::Exec& x, int i);

}  // namespace octet::ptxsim::insn
