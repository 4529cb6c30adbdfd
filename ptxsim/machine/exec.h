// SPDX-License-Identifier: Apache-2.0
// What an instruction's function sees: the lanes that run it, their registers, the block, the machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "octet/status.hpp"
#include "ptxsim/machine/cta.h"
#include "ptxsim/machine/machine.h"

namespace octet::ptxsim::machine {

struct Exec {
  Machine& machine;
  Cta& cta;
  Warp& warp;
  Fragment* fragment =
      nullptr;  // the lanes' place; instructions other than branches leave its pc alone
  uint32_t* registers = nullptr;
  LaneMask lanes = 0;  // of the fragment, for which the guard holds
  uint64_t seen =
      0;  // kYielded, kBlocked: what the lanes saw; the same at the same place again is no progress
  Status error;

  uint32_t* words(const Arg& arg) const { return registers + arg.slot; }
  uint64_t* longs(const Arg& arg) const { return longs(arg.slot); }
  uint32_t* words(Slot slot) const { return registers + slot; }
  uint64_t* longs(Slot slot) const { return reinterpret_cast<uint64_t*>(registers + slot); }
  // One lane's value whatever its width (not 128 bits).
  uint64_t value(const Arg& arg, int lane) const {
    if (arg.bits == 64) return longs(arg)[lane];
    if (arg.bits == 1) return (predicate(arg) >> lane) & 1;
    return words(arg)[lane];
  }
  void set(Slot slot, int bits, int lane, uint64_t value) const {
    if (slot == kNoSlot) return;
    if (bits == 64) {
      longs(slot)[lane] = value;
    } else {
      words(slot)[lane] = uint32_t(value);
    }
  }
  LaneMask predicate(const Arg& arg) const {
    return arg.negated ? ~registers[arg.slot] : registers[arg.slot];
  }
  void set_predicate(Slot slot, LaneMask values) const {
    if (slot != kNoSlot) registers[slot] = (registers[slot] & ~lanes) | (values & lanes);
  }
  // The address of a lane: base and offset, of the width of the base.
  uint64_t address(const Arg& arg, int lane) const {
    const uint64_t base = arg.bits == 64 ? longs(arg)[lane] : words(arg)[lane];
    return arg.bits == 64 ? base + int64_t{arg.offset} : uint32_t(base + int64_t{arg.offset});
  }

  Slot element(const Arg& arg, int i) const { return program().lists[arg.list + i]; }
  const Program& program() const { return *cta.grid->program; }

  // "line 12, column 3: 'st.shared.u32 [%r1], %r2;': WHAT (block 3, warp 2, lane 5)".
  Outcome fail(const Insn& insn, std::string_view what, int lane = -1);

  // What the ordering checker says of this instruction: true where the run ends with it. Nothing said: false.
  bool is_out_of_order(const Insn& insn, const std::string& what, int lane = -1);

  // Posts an operation of this warp's (async.h); performs it now where time is eager.
  // `after`: ids of this block's operations that must be performed before it. `id`: its own, 0 if it is performed. `bytes`: of global
  // memory that it reads.
  Outcome post(const Insn& insn, int channel, std::function<Status()> perform,
               std::vector<uint64_t> after = {}, uint64_t* id = nullptr, uint64_t bytes = 0);
};

// A status about an asynchronous operation, as Exec::fail's.
Status async_error(const Cta& cta, const Insn& insn, std::string_view what);
// The same of what the ordering checker says, as Exec::is_out_of_order.
Status async_order(Machine& machine, const Cta& cta, const Insn& insn, const std::string& what);

}  // namespace octet::ptxsim::machine
