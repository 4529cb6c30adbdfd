// SPDX-License-Identifier: Apache-2.0
// Branches, ends, waits for time and for grids: PTX ISA 9.7.12, 9.7.13.13 (griddepcontrol), 9.7.19.
#include "ptxsim/insn/families.h"

namespace octet::ptxsim::insn {
namespace {

// Lanes for which the guard holds go to the target; the others are a fragment of their own (machine/warp.h).
Outcome run_bra(Exec& x, const Insn& insn) {
  machine::Fragment& here = *x.fragment;
  const LaneMask rest = here.lanes & ~x.lanes;
  const uint32_t next = here.pc + 1;
  if (x.lanes == 0) {
    here.pc = next;
    return Outcome::kJumped;
  }
  if (rest != 0) {
    here.lanes = x.lanes;
    x.warp.fragments.push_back({.pc = next, .lanes = rest});
  }
  here.pc = insn.target;
  return Outcome::kJumped;
}

Outcome run_ret(Exec& x, const Insn&) {
  machine::Fragment& here = *x.fragment;
  x.warp.live &= ~x.lanes;
  here.lanes &= ~x.lanes;
  ++here.pc;
  if (x.warp.live == 0) {
    --x.cta.live_warps;
    --x.cta.cluster->live_warps;
  }
  return Outcome::kJumped;
}

Outcome run_dependents(Exec& x, const Insn&) {
  if (!x.cta.launched_dependents) ++x.cta.grid->dependents_launched;
  x.cta.launched_dependents = true;
  return Outcome::kNext;
}

// Until the grid before has ended, all of it; what it wrote is seen then.
Outcome run_grid_wait(Exec& x, const Insn&) {
  const machine::Grid* before = x.cta.grid->before;
  return before == nullptr || before->has_ended() ? Outcome::kNext : Outcome::kBlocked;
}

Outcome run_nothing(Exec&, const Insn&) { return Outcome::kNext; }

}  // namespace

// .uni promises that all active lanes go the same way: an error where they don't.
Status bind_bra(Binder& b) {
  const bool is_uniform = b.take("uni");
  OCTET_RETURN_IF_ERROR(b.done(1));
  OCTET_RETURN_IF_ERROR(b.label(0));
  b.insn().is_branch = true;
  b.insn().run = run_bra;
  if (is_uniform) {
    b.insn().run = +[](Exec& x, const Insn& insn) {
      if (x.lanes != 0 && x.lanes != x.fragment->lanes)
        return x.fail(insn, ".uni, and the guard does not hold for all lanes");
      return run_bra(x, insn);
    };
  }
  return {};
}

// A kernel's ret ends its thread, as exit does (PTX ISA 9.7.12.5, 9.7.12.6).
Status bind_ret(Binder& b) {
  b.take("uni");
  OCTET_RETURN_IF_ERROR(b.done(0));
  b.insn().run = run_ret;
  return {};
}

Status bind_trap(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.done(0));
  b.insn().run = +[](Exec& x, const Insn& insn) {
    return x.fail(insn, "the kernel traps", machine::first_lane(x.lanes));
  };
  return {};
}

// Others go first; how long is not modelled.
Status bind_nanosleep(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.expect("u32"));
  OCTET_RETURN_IF_ERROR(b.done(1));
  OCTET_RETURN_IF_ERROR(b.source(0, Type::kU32));
  b.insn().run = +[](Exec&, const Insn&) { return Outcome::kYielded; };
  return {};
}

Status bind_griddepcontrol(Binder& b) {
  OCTET_ASSIGN_OR_RETURN(const int waits, b.expect_one_of({"launch_dependents", "wait"}));
  OCTET_RETURN_IF_ERROR(b.done(0));
  b.insn().run = waits != 0 ? run_grid_wait : run_dependents;
  return {};
}

// Registers have no price here. All four warps of a warpgroup must run it; that is not checked.
Status bind_setmaxnreg(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.expect_one_of({"inc", "dec"}).status());
  OCTET_RETURN_IF_ERROR(b.expect("sync"));
  OCTET_RETURN_IF_ERROR(b.expect("aligned"));
  OCTET_RETURN_IF_ERROR(b.expect("u32"));
  OCTET_RETURN_IF_ERROR(b.done(1));
  OCTET_ASSIGN_OR_RETURN(const int64_t count, b.number(0));
  if (count < 24 || count > 256 || count % 8 != 0)
    return b.refuse(b.operand(0), "want 24 to 256 registers, a multiple of 8");
  b.insn().is_aligned = true;
  b.insn().run = run_nothing;
  return {};
}

}  // namespace octet::ptxsim::insn
