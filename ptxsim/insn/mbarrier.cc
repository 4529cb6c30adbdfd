// SPDX-License-Identifier: Apache-2.0
// mbarrier: PTX ISA 9.7.13.15. State and phases are machine/mbarrier.h's.
//
// A wait that finds its phase not ended blocks, or, where time is not eager, now and then returns false at once: try_wait may give up
// after any time, test_wait never waits.
#include <fmt/format.h>

#include "ptxsim/insn/access.h"
#include "ptxsim/insn/families.h"
#include "ptxsim/insn/memory_forms.h"

namespace octet::ptxsim::insn {
namespace {

using machine::Mbarrier;
using machine::Memory;

constexpr uint64_t kGivesUpOneIn = 8;

// The lane's barrier; null: x.error says why. `address` is the operand, in the space of mods[0].
Mbarrier* find(Exec& x, const Insn& insn, const Arg& address, int lane, Located* at, bool must_be) {
  const uint64_t a = x.address(address, lane);
  std::string wrong =
      locate(x.machine, x.cta, &x.warp, lane, Space(insn.mods[0]), a, machine::kMbarrierBytes, at);
  if (wrong.empty() && at->shared_of == nullptr)
    wrong = fmt::format("address {:#x} is not in shared memory", a);
  if (wrong.empty() && a % machine::kMbarrierBytes != 0)
    wrong = fmt::format("address {:#x} is not a multiple of 8", a);
  Mbarrier* found = wrong.empty() ? at->shared_of->mbarriers.find(uint32_t(at->offset)) : nullptr;
  if (wrong.empty() && must_be && found == nullptr)
    wrong = fmt::format("no mbarrier at shared address {:#x}", a);
  if (!wrong.empty()) x.fail(insn, wrong, lane);
  return found;
}

// The object is written by init and inval and read by all else: who uses it must know of the init.
std::string check_order(const Exec& x, const Insn& insn, const Located& at, bool writes) {
  machine::Order* order = order_of(x.cta);
  if (order == nullptr) return "";
  const uint32_t warp = order_warp(x), rank = at.shared_of->rank;
  constexpr auto kKind = machine::AccessKind::kPlain;
  const std::string wrong =
      writes ? order->write(warp, rank, at.offset, machine::kMbarrierBytes, kKind, insn.index)
             : order->read(warp, rank, at.offset, machine::kMbarrierBytes, kKind);
  return wrong;
}

// f(lane, barrier, located) for each lane, until one says what is wrong.
template <class F>
Outcome for_each_barrier(Exec& x, const Insn& insn, const Arg& address, F f) {
  for (LaneMask left = x.lanes; left != 0; left &= left - 1) {
    const int lane = machine::first_lane(left);
    Located at;
    Mbarrier* found = find(x, insn, address, lane, &at, true);
    if (found == nullptr) return Outcome::kFailed;
    if (x.is_out_of_order(insn, check_order(x, insn, at, false), lane)) return Outcome::kFailed;
    if (const std::string wrong = f(lane, *found, at); !wrong.empty())
      return x.fail(insn, wrong, lane);
  }
  return Outcome::kNext;
}

Outcome run_init(Exec& x, const Insn& insn) {
  for (LaneMask left = x.lanes; left != 0; left &= left - 1) {
    const int lane = machine::first_lane(left);
    Located at;
    const Mbarrier* found = find(x, insn, insn.args[0], lane, &at, false);
    if (!x.error.ok()) return Outcome::kFailed;
    if (found != nullptr)
      return x.fail(insn, "an mbarrier is there already: mbarrier.inval must stand before", lane);
    const int64_t count = x.words(insn.args[1])[lane];
    if (count < 1 || count > machine::kMostArrivals)
      return x.fail(insn, fmt::format("{} arrivals, want 1 to {}", count, machine::kMostArrivals),
                    lane);
    if (at.memory->any_is(Memory::Byte::kMbarrier, at.offset, machine::kMbarrierBytes))
      return x.fail(insn, "overlaps an mbarrier", lane);
    if (x.is_out_of_order(insn, check_order(x, insn, at, true), lane)) return Outcome::kFailed;
    at.shared_of->mbarriers.init(uint32_t(at.offset), count);
    if (machine::Order* order = order_of(x.cta); order != nullptr)
      at.shared_of->mbarriers.find(uint32_t(at.offset))->component = order->new_component();
    at.memory->mark(Memory::Byte::kMbarrier, at.offset, machine::kMbarrierBytes);
  }
  return Outcome::kNext;
}

Outcome run_inval(Exec& x, const Insn& insn) {
  return for_each_barrier(x, insn, insn.args[0],
                          [&](int, Mbarrier&, const Located& at) -> std::string {
                            at.shared_of->mbarriers.invalidate(uint32_t(at.offset));
                            at.memory->poison(at.offset, machine::kMbarrierBytes);
                            return "";
                          });
}

enum ArriveMod { kSpace, kExpects, kDrops, kHasCount, kArrivesRelaxed };

// args: state, address, count or bytes.
Outcome run_arrive(Exec& x, const Insn& insn) {
  if (const std::string wrong = machine::may_signal(x.cta, x.warp, x.lanes); !wrong.empty())
    return x.fail(insn, wrong);
  return for_each_barrier(
      x, insn, insn.args[1], [&](int lane, Mbarrier& barrier, const Located&) -> std::string {
        const int64_t operand = insn.mods[kHasCount] != 0 ? x.words(insn.args[2])[lane] : 1;
        x.set(insn.args[0].slot, 64, lane, barrier.token());
        if (machine::Order* order = order_of(x.cta); order != nullptr)
          barrier.given.join(order->release(order_warp(x), insn.mods[kArrivesRelaxed] != 0));
        if (insn.mods[kExpects] != 0) {
          // The bytes are announced before the arrival (9.7.13.15.13): the arrival may end the phase, the announcement may not.
          barrier.transactions += operand;
          if (barrier.transactions > machine::kMostTransactions)
            return fmt::format("a transaction count of {}, at most {}", barrier.transactions,
                               machine::kMostTransactions);
          return insn.mods[kDrops] != 0 ? barrier.drop(1) : barrier.arrive(1);
        }
        return insn.mods[kDrops] != 0 ? barrier.drop(operand) : barrier.arrive(operand);
      });
}

enum TxMod { kTxSpace, kCompletes };

Outcome run_transactions(Exec& x, const Insn& insn) {
  return for_each_barrier(x, insn, insn.args[0], [&](int lane, Mbarrier& barrier, const Located&) {
    const int64_t bytes = x.words(insn.args[1])[lane];
    return insn.mods[kCompletes] != 0 ? barrier.complete(bytes) : barrier.expect(bytes);
  });
}

enum WaitMod { kWaitSpace, kParity, kTries, kWaitsRelaxed };

// The token's phase: that of its arrival, which must be this one or the one before (9.7.13.15.16).
std::string has_ended(const Mbarrier& barrier, const Insn& insn, uint64_t operand, bool* ended) {
  if (insn.mods[kParity] != 0) {
    if (operand > 1) return fmt::format("a parity of {}", operand);
    *ended = barrier.has_ended(uint32_t(operand));
    return "";
  }
  const uint64_t phase = operand >> 1;
  if ((operand & 1) == 0 || phase > barrier.phase || phase + 1 < barrier.phase) {
    return fmt::format("the state is of phase {}, the mbarrier is in phase {}", phase,
                       barrier.phase);
  }
  *ended = phase < barrier.phase;
  return "";
}

// args: p, address, parity or state.
Outcome run_wait(Exec& x, const Insn& insn) {
  LaneMask ended = 0;
  const Outcome outcome =
      for_each_barrier(x, insn, insn.args[1], [&](int lane, Mbarrier& barrier, const Located&) {
        bool is = false;
        std::string wrong = has_ended(barrier, insn, x.value(insn.args[2], lane), &is);
        if (is) {
          ended |= LaneMask{1} << lane;
          barrier.seen_phase = barrier.phase;
          if (machine::Order* order = order_of(x.cta); order != nullptr)
            order->acquire(order_warp(x), barrier.ended, insn.mods[kWaitsRelaxed] != 0);
        }
        x.seen = x.seen * 31 + barrier.phase;
        return wrong;
      });
  if (outcome != Outcome::kNext) return outcome;
  const bool may_give_up = x.machine.settings().time != machine::Time::kEager &&
                           x.machine.random().one_in(kGivesUpOneIn);
  if (ended != x.lanes && insn.mods[kTries] != 0 && !may_give_up) return Outcome::kBlocked;
  machine::passed_wait(x.cta, x.warp, ended);
  x.set_predicate(insn.args[0].slot, ended);
  return ended == x.lanes ? Outcome::kNext : Outcome::kYielded;
}

// .release .relaxed .acquire, scope, space, .b64: what is behind the operation's own modifiers.
Status take_tail(Binder& b, Space* space, bool* is_relaxed = nullptr) {
  const int order = take_order(b);
  if (is_relaxed != nullptr) *is_relaxed = order == kRelaxed;
  take_scope(b);
  *space = take_space(b);
  if (*space != Space::kShared && *space != Space::kSharedCluster && *space != Space::kGeneric)
    return b.refuse("an mbarrier is in shared memory");
  return b.expect("b64");
}

Status bind_arrival(Binder& b, bool drops) {
  const bool expects = b.take("expect_tx");
  if (b.take("noComplete")) return b.unmodelled(".noComplete is not modelled");
  Space space;
  bool is_relaxed = false;
  OCTET_RETURN_IF_ERROR(take_tail(b, &space, &is_relaxed));
  OCTET_RETURN_IF_ERROR(b.done(1, 3));
  const bool has_state = b.operand(0).kind != text::Operand::Kind::kAddress;
  const size_t rest = has_state ? 1 : 0;
  if (has_state) {
    OCTET_RETURN_IF_ERROR(b.result(0, Type::kB64));
    if (space == Space::kSharedCluster && b.operand(0).kind != text::Operand::Kind::kSink)
      return b.refuse(b.operand(0), "a remote arrival returns no state");
  } else {
    OCTET_RETURN_IF_ERROR(b.sink(Type::kB64));
  }
  if (b.num_operands() <= rest) return b.refuse("want an address");
  OCTET_RETURN_IF_ERROR(b.address(rest));
  const bool has_count = b.num_operands() == rest + 2;
  if (expects && !has_count) return b.refuse("want the bytes to expect");
  if (has_count) OCTET_RETURN_IF_ERROR(b.source(rest + 1, Type::kU32));
  b.insn().mods = {int(space), expects, drops, has_count, is_relaxed};
  b.insn().run = run_arrive;
  return {};
}

Status bind_transactions(Binder& b, bool completes) {
  Space space;
  OCTET_RETURN_IF_ERROR(take_tail(b, &space));
  OCTET_RETURN_IF_ERROR(b.done(2));
  OCTET_RETURN_IF_ERROR(b.address(0));
  OCTET_RETURN_IF_ERROR(b.source(1, Type::kU32));
  b.insn().mods = {int(space), completes};
  b.insn().run = run_transactions;
  return {};
}

Status bind_wait(Binder& b, bool tries) {
  const bool parity = b.take("parity");
  Space space;
  bool is_relaxed = false;
  OCTET_RETURN_IF_ERROR(take_tail(b, &space, &is_relaxed));
  if (space == Space::kSharedCluster) return b.refuse("waits are for the block's own mbarriers");
  OCTET_RETURN_IF_ERROR(b.done(3, tries ? 4 : 3));
  OCTET_RETURN_IF_ERROR(b.predicate_result(0));
  OCTET_RETURN_IF_ERROR(b.address(1));
  OCTET_RETURN_IF_ERROR(b.source(2, parity ? Type::kU32 : Type::kB64));
  if (b.num_operands() == 4) OCTET_RETURN_IF_ERROR(b.source(3, Type::kU32));  // how long to try
  b.insn().mods = {int(space), parity, tries, is_relaxed};
  b.insn().run = run_wait;
  return {};
}

}  // namespace

Status bind_mbarrier_init(Binder& b) {
  Space space;
  OCTET_RETURN_IF_ERROR(take_tail(b, &space));
  OCTET_RETURN_IF_ERROR(b.done(2));
  OCTET_RETURN_IF_ERROR(b.address(0));
  OCTET_RETURN_IF_ERROR(b.source(1, Type::kU32));
  b.insn().mods[0] = int(space);
  b.insn().run = run_init;
  return {};
}

Status bind_mbarrier_inval(Binder& b) {
  Space space;
  OCTET_RETURN_IF_ERROR(take_tail(b, &space));
  OCTET_RETURN_IF_ERROR(b.done(1));
  OCTET_RETURN_IF_ERROR(b.address(0));
  b.insn().mods[0] = int(space);
  b.insn().run = run_inval;
  return {};
}

Status bind_mbarrier_arrive(Binder& b) { return bind_arrival(b, false); }
Status bind_mbarrier_arrive_drop(Binder& b) { return bind_arrival(b, true); }
Status bind_mbarrier_expect_tx(Binder& b) { return bind_transactions(b, false); }
Status bind_mbarrier_complete_tx(Binder& b) { return bind_transactions(b, true); }
Status bind_mbarrier_test_wait(Binder& b) { return bind_wait(b, false); }
Status bind_mbarrier_try_wait(Binder& b) { return bind_wait(b, true); }
Status bind_mbarrier_pending_count(Binder& b) {
  return b.unmodelled("the state's layout is not modelled");
}

}  // namespace octet::ptxsim::insn
