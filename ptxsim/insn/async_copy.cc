// SPDX-License-Identifier: Apache-2.0
// cp.async of 4, 8 or 16 bytes a lane, its groups and its arrivals: PTX ISA 9.7.9.25.1 to 9.7.9.25.3, 9.7.13.15.15.
//
// One operation an instruction: its lanes' copies are performed together. Bytes beyond src-size are zeros. Groups are a thread's own.
#include <array>
#include <cstring>
#include <fmt/format.h>

#include "ptxsim/insn/access.h"
#include "ptxsim/insn/families.h"
#include "ptxsim/insn/memory_forms.h"

namespace octet::ptxsim::insn {
namespace {

struct LaneCopy {
  int lane = 0;
  uint64_t to = 0, from = 0;
  uint32_t read_bytes = 0;
  uint64_t group = 0;
};

enum Mod { kBytes, kHasSource, kIgnores };

Status perform_copies(const AsyncAccess& by, const std::vector<LaneCopy>& copies, uint32_t bytes) {
  machine::Warp& warp = *by.cta->warps[by.warp];
  for (const LaneCopy& copy : copies) {
    std::array<uint8_t, 16> data{};
    if (copy.read_bytes != 0)
      OCTET_RETURN_IF_ERROR(
          async_read(by, Space::kGlobal, copy.from, copy.read_bytes, data.data()));
    OCTET_RETURN_IF_ERROR(async_write(by, Space::kShared, copy.to, bytes, data.data()));
    warp.copy_groups[copy.lane].done(copy.group);
  }
  return {};
}

// args: destination, source, size or predicate of ignoring.
Outcome run_cp_async(Exec& x, const Insn& insn) {
  const auto bytes = uint32_t(insn.mods[kBytes]);
  // Not a bulk copy: the generic proxy (PTX ISA 9.7.9.25.3).
  const AsyncAccess by = async_access(x, insn, Proxy::kGeneric, false);
  machine::Order* order = order_of(x.cta);
  if (order != nullptr) order->join_group(by.token, order_warp(x), machine::GroupKind::kCopies);
  std::vector<LaneCopy> copies;
  uint64_t read_bytes = 0;
  for (LaneMask left = x.lanes; left != 0; left &= left - 1) {
    const int lane = machine::first_lane(left);
    LaneCopy copy{lane, x.address(insn.args[0], lane), x.address(insn.args[1], lane), bytes, 0};
    if (copy.to % bytes != 0 || copy.from % bytes != 0)
      return x.fail(insn, fmt::format("addresses that are no multiples of {}", bytes), lane);
    if (insn.mods[kHasSource] != 0) copy.read_bytes = x.words(insn.args[2])[lane];
    if (insn.mods[kIgnores] != 0 && (x.predicate(insn.args[2]) >> lane & 1) != 0)
      copy.read_bytes = 0;
    if (copy.read_bytes > bytes)
      return x.fail(insn, fmt::format("{} source bytes, at most {}", copy.read_bytes, bytes), lane);
    x.error = async_poison(by, Space::kShared, copy.to, bytes);
    if (!x.error.ok()) return Outcome::kFailed;
    copy.group = x.warp.copy_groups[lane].join();
    read_bytes += copy.read_bytes;
    copies.push_back(copy);
  }
  uint64_t id = 0;
  const Outcome outcome = x.post(
      insn, machine::kUnordered,
      [by, bytes, copies = std::move(copies)] { return perform_copies(by, copies, bytes); }, {},
      &id, read_bytes);
  if (id != 0) x.warp.copies_in_flight.push_back(id);
  return outcome;
}

Outcome run_commit(Exec& x, const Insn&) {
  machine::for_each_lane(x.lanes, [&](int lane) { x.warp.copy_groups[lane].commit(); });
  if (machine::Order* order = order_of(x.cta); order != nullptr)
    order->commit_group(order_warp(x), machine::GroupKind::kCopies);
  return Outcome::kNext;
}

Outcome wait_until(Exec& x, uint64_t most) {
  bool done = true;
  machine::for_each_lane(x.lanes,
                         [&](int lane) { done &= x.warp.copy_groups[lane].at_most(most); });
  if (!done) return Outcome::kBlocked;
  if (machine::Order* order = order_of(x.cta); order != nullptr)
    order->wait_group(order_warp(x), machine::GroupKind::kCopies, most);
  return Outcome::kNext;
}

// An arrival once all copies that the thread has issued before are performed. Without .noinc it is one more than the phase expects.
Outcome run_mbarrier_arrive(Exec& x, const Insn& insn) {
  const AsyncAccess by = async_access(x, insn, Proxy::kGeneric, false);
  if (machine::Order* order = order_of(x.cta); order != nullptr)
    order->add_groups(order_warp(x), machine::GroupKind::kCopies, &order->token(by.token).gives);
  for (LaneMask left = x.lanes; left != 0; left &= left - 1) {
    const int lane = machine::first_lane(left);
    Located at;
    const uint64_t address = x.address(insn.args[0], lane);
    const std::string wrong = locate(x.machine, x.cta, &x.warp, lane, Space(insn.mods[0]), address,
                                     machine::kMbarrierBytes, &at);
    if (!wrong.empty()) return x.fail(insn, wrong, lane);
    machine::Mbarrier* found =
        at.shared_of == &x.cta ? x.cta.mbarriers.find(uint32_t(at.offset)) : nullptr;
    if (found == nullptr)
      return x.fail(insn, fmt::format("no mbarrier of this block at {:#x}", address), lane);
    if (insn.mods[1] == 0) ++found->pending;
    const uint64_t own = at.offset | uint64_t{x.cta.rank} << machine::kRankShift;
    const Outcome outcome = x.post(
        insn, machine::kUnordered, [by, own] { return async_arrive(by, own, 1); },
        x.warp.copies_in_flight);
    if (outcome != Outcome::kNext) return outcome;
  }
  return Outcome::kNext;
}

}  // namespace

Status bind_cp_async(Binder& b) {
  OCTET_ASSIGN_OR_RETURN(const int global_only, b.expect_one_of({"ca", "cg"}));
  OCTET_RETURN_IF_ERROR(b.expect_one_of({"shared", "shared::cta"}).status());
  OCTET_RETURN_IF_ERROR(b.expect("global"));
  const bool has_policy = b.take_cache_hints();
  const size_t fewest = has_policy ? 4 : 3;
  OCTET_RETURN_IF_ERROR(b.done(fewest, fewest + 1));
  OCTET_RETURN_IF_ERROR(b.address(0));
  OCTET_RETURN_IF_ERROR(b.address(1));
  OCTET_ASSIGN_OR_RETURN(const int64_t bytes, b.number(2));
  if (global_only != 0 ? bytes != 16 : bytes != 4 && bytes != 8 && bytes != 16) {
    return b.refuse(b.operand(2), "want 16 bytes; .ca also 4 and 8");
  }
  const bool has_fourth = b.num_operands() == fewest + 1;
  bool ignores = false;
  if (has_fourth) {
    const auto& fourth = b.operand(3);
    ignores = fourth.kind == text::Operand::Kind::kName && b.is_predicate(fourth);
    OCTET_RETURN_IF_ERROR(ignores ? b.predicate_source(3) : b.source(3, Type::kU32));
  }
  if (has_policy) OCTET_RETURN_IF_ERROR(b.source(b.num_operands() - 1, Type::kB64));
  b.insn().mods = {int(bytes), has_fourth && !ignores, ignores};
  b.insn().run = run_cp_async;
  return {};
}

Status bind_cp_async_commit(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.done(0));
  b.insn().run = run_commit;
  return {};
}

Status bind_cp_async_wait(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.done(1));
  OCTET_ASSIGN_OR_RETURN(const int64_t most, b.number(0));
  b.insn().mods[0] = int32_t(most);
  b.insn().run = +[](Exec& x, const Insn& insn) { return wait_until(x, uint64_t(insn.mods[0])); };
  return {};
}

// As commit_group and wait_group 0; tried again, it commits groups of nothing.
Status bind_cp_async_wait_all(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.done(0));
  b.insn().run = +[](Exec& x, const Insn& insn) {
    run_commit(x, insn);
    return wait_until(x, 0);
  };
  return {};
}

Status bind_cp_async_mbarrier(Binder& b) {
  const bool noinc = b.take("noinc");
  const Space space = take_space(b);
  if (space != Space::kShared && space != Space::kGeneric)
    return b.refuse("an mbarrier is in shared memory");
  OCTET_RETURN_IF_ERROR(b.expect("b64"));
  OCTET_RETURN_IF_ERROR(b.done(1));
  OCTET_RETURN_IF_ERROR(b.address(0));
  b.insn().mods = {int(space), noinc};
  b.insn().run = run_mbarrier_arrive;
  return {};
}

}  // namespace octet::ptxsim::insn
