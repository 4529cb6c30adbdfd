// SPDX-License-Identifier: Apache-2.0
// Named barriers and the cluster's: PTX ISA 9.7.13.1 (bar, barrier), 9.7.13.3 (barrier.cluster).
//
// A warp comes as a whole, and counts as 32 threads. Without a count a barrier waits for all warps that have not exited. That lanes of
// a warp come by different instructions, which barrier without .aligned lets them, is not modelled (the run is then stuck).
#include <fmt/format.h>

#include "ptxsim/insn/access.h"
#include "ptxsim/insn/families.h"

namespace octet::ptxsim::insn {
namespace {

using machine::Gate;

void give(const Exec& x, machine::Knowledge* to) {
  if (machine::Order* order = order_of(x.cta); order != nullptr)
    to->join(order->release(order_warp(x)));
}
void take(const Exec& x, const machine::Knowledge& from) {
  if (machine::Order* order = order_of(x.cta); order != nullptr)
    order->of(order_warp(x)).join(from);
}

enum Mod { kAction, kHasCount, kRedOp };
enum Action { kSync, kArrive, kRed };
enum RedOp { kPopc, kAnd, kOr };

void open_if_due(const Exec& x, Gate& gate) {
  const uint32_t wanted = gate.wanted != 0 ? gate.wanted : x.cta.live_warps * machine::kLanes;
  if (gate.arrived >= wanted) gate.open();
}

// Each warp's part of bar.red; `and` counts those that say no.
uint64_t contribution(const Exec& x, const Insn& insn) {
  const LaneMask yes = x.predicate(insn.args[insn.num_args - 1]) & x.lanes;
  return uint64_t(machine::num_lanes(insn.mods[kRedOp] == kAnd ? x.lanes & ~yes : yes));
}

void set_red_result(const Exec& x, const Insn& insn, const Gate& gate) {
  if (insn.mods[kRedOp] == kPopc) {
    machine::for_each_lane(x.lanes,
                           [&](int lane) { x.set(insn.args[0].slot, 32, lane, gate.result); });
  } else {
    const bool holds = insn.mods[kRedOp] == kAnd ? gate.result == 0 : gate.result != 0;
    x.set_predicate(insn.args[0].slot, holds ? machine::kAllLanes : 0);
  }
}

// The barrier's number and count must be the same for all lanes.
bool same_for_all(const Exec& x, const Arg& arg) {
  const uint32_t* value = x.words(arg);
  bool same = true;
  machine::for_each_lane(
      x.lanes, [&](int lane) { same &= value[lane] == value[machine::first_lane(x.lanes)]; });
  return same;
}

Outcome run_bar(Exec& x, const Insn& insn) {
  if (x.lanes != x.warp.live) return Outcome::kBlocked;
  const int first = insn.mods[kAction] == kRed ? 1 : 0;
  const Arg& id = insn.args[first];
  if (!same_for_all(x, id)) return x.fail(insn, "lanes name different barriers");
  const uint32_t number = x.words(id)[machine::first_lane(x.lanes)];
  if (number >= machine::kNamedBarriers)
    return x.fail(insn, fmt::format("barrier {}, there are {}", number, machine::kNamedBarriers));
  Gate& gate = x.cta.barriers[number];
  uint64_t& ticket = x.fragment->ticket;
  if (ticket == 0) {
    if (const std::string wrong = machine::may_signal(x.cta, x.warp, x.lanes); !wrong.empty())
      return x.fail(insn, wrong);
    uint32_t wanted = 0;
    if (insn.mods[kHasCount] != 0) {
      wanted = x.words(insn.args[first + 1])[machine::first_lane(x.lanes)];
      if (wanted == 0 || wanted % machine::kLanes != 0) {
        return x.fail(insn,
                      fmt::format("a count of {}, want a multiple of {}", wanted, machine::kLanes));
      }
    }
    if (gate.arrived != 0 && gate.wanted != wanted) {
      return x.fail(insn, fmt::format("a count of {}, those before said {}", wanted, gate.wanted));
    }
    gate.wanted = wanted;
    gate.arrived += machine::kLanes;
    if (wanted != 0 && gate.arrived > wanted)
      return x.fail(
          insn, fmt::format("more than the {} threads that barrier {} waits for", wanted, number));
    if (insn.mods[kAction] == kRed) gate.value += contribution(x, insn);
    ticket = gate.openings;
    give(x, &gate.given);
  }
  open_if_due(x, gate);
  if (insn.mods[kAction] != kArrive && gate.openings <= ticket) {
    x.seen = ticket;
    return Outcome::kBlocked;
  }
  if (insn.mods[kAction] == kRed) set_red_result(x, insn, gate);
  if (insn.mods[kAction] != kArrive) take(x, gate.opened);
  if (insn.mods[kAction] != kArrive) machine::passed_wait(x.cta, x.warp, x.lanes);
  ticket = 0;
  return Outcome::kNext;
}

Outcome run_cluster_arrive(Exec& x, const Insn& insn) {
  if (x.lanes != x.warp.live) return Outcome::kBlocked;
  Gate& gate = x.cta.cluster->barrier;
  if (const std::string wrong = machine::may_signal(x.cta, x.warp, x.lanes); !wrong.empty())
    return x.fail(insn, wrong);
  if (x.warp.cluster_ticket != 0) return x.fail(insn, "arrives twice without barrier.cluster.wait");
  x.warp.cluster_ticket = gate.openings;
  ++gate.arrived;
  give(x, &gate.given);
  if (gate.arrived >= x.cta.cluster->live_warps) gate.open();
  return Outcome::kNext;
}

Outcome run_cluster_wait(Exec& x, const Insn& insn) {
  if (x.lanes != x.warp.live) return Outcome::kBlocked;
  Gate& gate = x.cta.cluster->barrier;
  uint64_t& ticket = x.warp.cluster_ticket;
  if (ticket == 0) return x.fail(insn, "waits without barrier.cluster.arrive");
  if (gate.openings <= ticket && gate.arrived >= x.cta.cluster->live_warps) gate.open();
  if (gate.openings <= ticket) {
    x.seen = ticket;
    return Outcome::kBlocked;
  }
  take(x, gate.opened);
  machine::passed_wait(x.cta, x.warp, x.lanes);
  ticket = 0;
  return Outcome::kNext;
}

}  // namespace

Status bind_bar(Binder& b) {
  b.take("cta");
  OCTET_ASSIGN_OR_RETURN(const int action, b.expect_one_of({"sync", "arrive", "red"}));
  int red_op = 0;
  if (action == kRed) {
    OCTET_ASSIGN_OR_RETURN(red_op, b.expect_one_of({"popc", "and", "or"}));
  }
  const bool is_aligned = b.take("aligned") || b.node().opcode == "bar";
  if (action == kRed) OCTET_RETURN_IF_ERROR(b.expect(red_op == kPopc ? "u32" : "pred"));
  const size_t around = action == kRed ? 2 : 0;  // a result before, a predicate behind
  OCTET_RETURN_IF_ERROR(b.done((action == kArrive ? 2 : 1) + around, 2 + around));
  const bool has_count = b.num_operands() == 2 + around;
  size_t i = 0;
  if (action == kRed)
    OCTET_RETURN_IF_ERROR(red_op == kPopc ? b.result(i++, Type::kU32) : b.predicate_result(i++));
  OCTET_RETURN_IF_ERROR(b.source(i++, Type::kU32));
  if (has_count) OCTET_RETURN_IF_ERROR(b.source(i++, Type::kU32));
  if (action == kRed) OCTET_RETURN_IF_ERROR(b.predicate_source(i));
  b.insn().mods = {action, has_count, red_op};
  b.insn().is_aligned = is_aligned;
  b.insn().run = run_bar;
  return {};
}

Status bind_barrier_cluster(Binder& b) {
  OCTET_ASSIGN_OR_RETURN(const int waits, b.expect_one_of({"arrive", "wait"}));
  b.take_one_of({"release", "relaxed", "acquire"});
  b.insn().is_aligned = b.take("aligned");
  OCTET_RETURN_IF_ERROR(b.done(0));
  b.insn().run = waits != 0 ? run_cluster_wait : run_cluster_arrive;
  return {};
}

}  // namespace octet::ptxsim::insn
