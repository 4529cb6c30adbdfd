// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/insn/access.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace octet::ptxsim::insn {
namespace {

using machine::Cta;
using machine::Exec;
using machine::Memory;
using machine::Outcome;

bool in_window(uint64_t address, uint64_t window) { return (address >> 40) == (window >> 40); }

std::string locate_shared(Cta& cta, uint64_t address, uint64_t bytes, bool is_cluster,
                          Located* at) {
  const uint64_t rank = address >> machine::kRankShift;
  const uint64_t offset = address & machine::kSharedOffsetMask;
  if (rank >= cta.cluster->ctas.size()) {
    return fmt::format("shared address {:#x} names rank {} of a cluster of {}", address, rank,
                       cta.cluster->ctas.size());
  }
  if (!is_cluster && rank != cta.rank) {
    return fmt::format("shared::cta address {:#x} is of rank {}, this block has rank {}", address,
                       rank, cta.rank);
  }
  Cta& owner = *cta.cluster->ctas[rank];
  if (!owner.shared.covers(offset, bytes)) {
    return fmt::format("{} bytes at shared address {:#x}, there are {}", bytes, offset,
                       owner.shared.size());
  }
  *at = {&owner.shared, offset, &owner, nullptr};
  return "";
}

std::string locate_local(machine::Warp* warp, int lane, uint64_t address, uint64_t bytes,
                         Located* at) {
  const uint64_t size = warp == nullptr ? 0 : warp->cta->grid->program->local_bytes;
  if (address > size || bytes > size - address) {
    return fmt::format("{} bytes at local address {:#x}, there are {}", bytes, address, size);
  }
  if (warp->local.empty()) warp->local.resize(machine::kLanes);
  auto& memory = warp->local[lane];
  if (memory == nullptr) memory = std::make_unique<Memory>(size);
  *at = {memory.get(), address, nullptr, nullptr};
  return "";
}

std::string locate_generic(machine::Machine& machine, Cta& cta, machine::Warp* warp, int lane,
                           uint64_t address, uint64_t bytes, Located* at) {
  using machine::kLocalWindow, machine::kParamWindow, machine::kSharedWindow;
  if (in_window(address, kSharedWindow))
    return locate_shared(cta, address - kSharedWindow, bytes, true, at);
  if (in_window(address, kParamWindow)) {
    return locate(machine, cta, warp, lane, Space::kParam, address - kParamWindow, bytes, at);
  }
  if (in_window(address, kLocalWindow))
    return locate_local(warp, lane, address - kLocalWindow, bytes, at);
  return locate(machine, cta, warp, lane, Space::kGlobal, address, bytes, at);
}

}  // namespace

std::string locate(machine::Machine& machine, Cta& cta, machine::Warp* warp, int lane, Space space,
                   uint64_t address, uint64_t bytes, Located* at) {
  switch (space) {
    case Space::kShared:
      return locate_shared(cta, address, bytes, false, at);
    case Space::kSharedCluster:
      return locate_shared(cta, address, bytes, true, at);
    case Space::kLocal:
      return locate_local(warp, lane, address, bytes, at);
    case Space::kParam:
      if (!cta.grid->parameters.covers(address, bytes)) {
        return fmt::format("{} bytes at parameter byte {}, there are {}", bytes, address,
                           cta.grid->parameters.size());
      }
      *at = {&cta.grid->parameters, address, nullptr, nullptr};
      return "";
    case Space::kGlobal:
    case Space::kConst:
      break;
    case Space::kGeneric:
      return locate_generic(machine, cta, warp, lane, address, bytes, at);
  }
  machine::Allocation* found = machine.memory().find(address, bytes);
  if (found == nullptr) return machine.memory().explain(address, bytes);
  *at = {&found->memory, address - found->base, nullptr, found};
  return "";
}

namespace {

enum class Access { kRead, kWrite, kUpdate };
using machine::AccessKind;

// What is wrong with an access of memory that is there; empty: nothing.
std::string check_bytes(const machine::Machine& machine, const Located& at, uint64_t bytes,
                        Access access) {
  using Byte = Memory::Byte;
  if (access != Access::kWrite && !at.memory->all_are(Byte::kSet, at.offset, bytes)) {
    if (at.memory->any_is(Byte::kMbarrier, at.offset, bytes)) return "reads an mbarrier object";
    const auto& settings = machine.settings();
    if (at.shared_of != nullptr ? settings.refuses_unset_shared_reads
                                : settings.refuses_unset_reads) {
      return fmt::format("reads {} bytes at {}{} of which some have not been written", bytes,
                         at.shared_of != nullptr ? "shared byte " : "byte ", at.offset);
    }
  }
  if (access == Access::kRead) return "";
  if (at.allocation != nullptr && at.allocation->is_read_only) {
    return fmt::format("writes '{}', which is only read", at.allocation->name);
  }
  if (at.shared_of != nullptr && at.memory->any_is(Byte::kMbarrier, at.offset, bytes))
    return "writes an mbarrier object";
  return "";
}

std::string check_order(const Exec& x, const machine::Insn& insn, const Located& at, uint64_t bytes,
                        Access access, AccessKind kind) {
  machine::Order* order = at.shared_of == nullptr ? nullptr : order_of(x.cta);
  if (order == nullptr) return "";
  const uint32_t warp = order_warp(x), rank = at.shared_of->rank;
  switch (access) {
    case Access::kRead:
      return order->read(warp, rank, at.offset, bytes, kind);
    case Access::kWrite:
      return order->write(warp, rank, at.offset, bytes, kind, insn.index);
    case Access::kUpdate:
      break;
  }
  return order->update(warp, rank, at.offset, bytes, insn.index);
}

uint8_t* lane_bytes(Exec& x, const machine::Insn& insn, Space space, uint64_t address,
                    uint32_t bytes, int lane, Access access, AccessKind kind) {
  Located at;
  std::string wrong = locate(x.machine, x.cta, &x.warp, lane, space, address, bytes, &at);
  if (wrong.empty() && address % bytes != 0) {
    wrong = fmt::format("address {:#x} is not a multiple of {}", address, bytes);
  }
  if (wrong.empty()) wrong = check_bytes(x.machine, at, bytes, access);
  if (!wrong.empty()) {
    x.fail(insn, wrong, lane);
    return nullptr;
  }
  if (x.is_out_of_order(insn, check_order(x, insn, at, bytes, access, kind), lane)) return nullptr;
  if (access != Access::kRead) at.memory->mark(Memory::Byte::kSet, at.offset, bytes);
  if (at.allocation != nullptr) {
    auto& counts = x.machine.counts();
    (access == Access::kRead ? counts.global_read_bytes : counts.global_written_bytes) += bytes;
    if (access != Access::kRead) at.allocation->note_write(at.offset, bytes, x.machine.now());
    if (access == Access::kRead) x.cta.grid->count_read(at.allocation->number, bytes);
  }
  return at.memory->at(at.offset);
}

}  // namespace

const uint8_t* read_lane(Exec& x, const machine::Insn& insn, Space space, uint64_t address,
                         uint32_t bytes, int lane, AccessKind kind) {
  return lane_bytes(x, insn, space, address, bytes, lane, Access::kRead, kind);
}

uint8_t* write_lane(Exec& x, const machine::Insn& insn, Space space, uint64_t address,
                    uint32_t bytes, int lane, AccessKind kind) {
  return lane_bytes(x, insn, space, address, bytes, lane, Access::kWrite, kind);
}

uint8_t* update_lane(Exec& x, const machine::Insn& insn, Space space, uint64_t address,
                     uint32_t bytes, int lane) {
  return lane_bytes(x, insn, space, address, bytes, lane, Access::kUpdate, AccessKind::kStrong);
}

namespace {

Status async_locate(const AsyncAccess& by, Space space, uint64_t address, uint64_t bytes,
                    Access access, Located* at) {
  std::string wrong =
      locate(*by.machine, *by.cta, by.cta->warps[by.warp].get(), 0, space, address, bytes, at);
  if (wrong.empty()) wrong = check_bytes(*by.machine, *at, bytes, access);
  if (wrong.empty() && at->shared_of != nullptr && at->shared_of->has_ended)
    wrong = "the block whose shared memory it is has exited";
  return wrong.empty() ? Status{} : async_error(*by.cta, *by.insn, wrong);
}

}  // namespace

namespace {

machine::Order* order_at(const AsyncAccess& by, const Located& at) {
  return at.shared_of == nullptr || by.token == 0 ? nullptr : order_of(*by.cta);
}

}  // namespace

AsyncAccess async_access(Exec& x, const machine::Insn& insn, Proxy proxy, bool reads) {
  machine::Order* order = order_of(x.cta);
  const uint32_t token = order == nullptr ? 0 : order->issue(order_warp(x), insn.index, reads);
  return {&x.machine,
          &x.cta,
          &insn,
          x.warp.index,
          proxy,
          token,
          std::max(x.warp.fenced_global_at, x.cta.grid->whole_since())};
}

namespace {

// R3 of global memory: the copy's warp has fenced behind the write, or the writer's grid was over before this one could begin.
std::string unfenced_global(const AsyncAccess& by, const Located& at, uint64_t bytes) {
  if (at.allocation == nullptr || by.token == 0 || by.proxy != Proxy::kAsync) return "";
  if (at.allocation->last_write(at.offset, bytes) <= by.global_until) return "";
  return fmt::format(
      "order: '{}': written by the generic proxy, with no fence.proxy.async of global memory "
      "behind it",
      at.allocation->name);
}

}  // namespace

Status async_read(const AsyncAccess& by, Space space, uint64_t address, uint64_t bytes,
                  uint8_t* to) {
  Located at;
  OCTET_RETURN_IF_ERROR(async_locate(by, space, address, bytes, Access::kRead, &at));
  if (machine::Order* order = order_at(by, at); order != nullptr) {
    const std::string wrong = by.proxy == Proxy::kAsync
                                  ? order->is_fenced(by.token, at.shared_of->rank, at.offset, bytes)
                                  : "";
    OCTET_RETURN_IF_ERROR(async_order(*by.machine, *by.cta, *by.insn, wrong));
    order->async_read(by.token, at.shared_of->rank, at.offset, bytes);
  }
  OCTET_RETURN_IF_ERROR(
      async_order(*by.machine, *by.cta, *by.insn, unfenced_global(by, at, bytes)));
  std::memcpy(to, at.memory->at(at.offset), bytes);
  if (at.allocation != nullptr) {
    by.machine->counts().global_read_bytes += bytes;
    by.machine->counts().copied_bytes += bytes;
    by.cta->grid->count_read(at.allocation->number, bytes);
  }
  return {};
}

Status async_write(const AsyncAccess& by, Space space, uint64_t address, uint64_t bytes,
                   const uint8_t* from) {
  Located at;
  OCTET_RETURN_IF_ERROR(async_locate(by, space, address, bytes, Access::kWrite, &at));
  if (machine::Order* order = order_at(by, at); order != nullptr) {
    order->async_wrote(by.token, at.shared_of->rank, at.offset, bytes);
  }
  std::memcpy(at.memory->at(at.offset), from, bytes);
  at.memory->mark(Memory::Byte::kSet, at.offset, bytes);
  if (at.allocation != nullptr) by.machine->counts().global_written_bytes += bytes;
  return {};
}

Status async_poison(const AsyncAccess& by, Space space, uint64_t address, uint64_t bytes) {
  Located at;
  OCTET_RETURN_IF_ERROR(async_locate(by, space, address, bytes, Access::kWrite, &at));
  if (machine::Order* order = order_at(by, at); order != nullptr) {
    const uint32_t rank = at.shared_of->rank;
    const std::string wrong =
        order->may_overwrite(order->warp_of(by.cta->rank, by.warp), rank, at.offset, bytes);
    OCTET_RETURN_IF_ERROR(async_order(*by.machine, *by.cta, *by.insn, wrong));
    order->async_wrote(by.token, rank, at.offset, bytes);
  }
  at.memory->poison(at.offset, bytes);
  return {};
}

namespace {

Status at_mbarrier(const AsyncAccess& by, uint64_t address, machine::Mbarrier** found) {
  Located at;
  OCTET_RETURN_IF_ERROR([&]() -> Status {
    const std::string wrong = locate(*by.machine, *by.cta, nullptr, 0, Space::kSharedCluster,
                                     address, machine::kMbarrierBytes, &at);
    return wrong.empty() ? Status{} : async_error(*by.cta, *by.insn, wrong);
  }());
  *found = at.shared_of->mbarriers.find(uint32_t(at.offset));
  if (*found == nullptr)
    return async_error(*by.cta, *by.insn,
                       fmt::format("no mbarrier at shared address {:#x}", address));
  return {};
}

}  // namespace

Status async_complete(const AsyncAccess& by, uint64_t mbarrier, int64_t bytes) {
  machine::Mbarrier* found = nullptr;
  OCTET_RETURN_IF_ERROR(at_mbarrier(by, mbarrier, &found));
  if (machine::Order* order = order_of(*by.cta); order != nullptr && by.token != 0) {
    order->complete(by.token, found->component, uint32_t(found->phase) + 1);
  }
  const std::string wrong = found->complete(bytes);
  return wrong.empty() ? Status{} : async_error(*by.cta, *by.insn, wrong);
}

Status async_arrive(const AsyncAccess& by, uint64_t mbarrier, int64_t count,
                    std::span<const uint32_t> behind) {
  machine::Mbarrier* found = nullptr;
  OCTET_RETURN_IF_ERROR(at_mbarrier(by, mbarrier, &found));
  if (machine::Order* order = order_of(*by.cta); order != nullptr && by.token != 0) {
    found->given.join(order->token(by.token).gives);
    order->complete(by.token, found->component, uint32_t(found->phase) + 1);
    for (const uint32_t token : behind)
      order->complete(token, found->component, uint32_t(found->phase) + 1);
  }
  const std::string wrong = found->arrive(count);
  return wrong.empty() ? Status{} : async_error(*by.cta, *by.insn, wrong);
}

machine::Warp& warpgroup_warp(machine::Exec& x, int i) {
  return *x.cta.warps[x.warp.index / 4 * 4 + i];
}

Outcome gather_warpgroup(Exec& x, const machine::Insn& insn, WhenAll when_all) {
  const int first = x.warp.index / 4 * 4;
  if (size_t(first) + 4 > x.cta.warps.size())
    return x.fail(insn, "fewer than four warps in this warpgroup");
  machine::Gate& gate = x.cta.warpgroups[x.warp.index / 4];
  uint64_t& ticket = x.fragment->ticket;
  x.seen = gate.openings;
  if (ticket != 0) {
    if (gate.openings <= ticket) return Outcome::kBlocked;
    ticket = 0;
    return Outcome::kNext;
  }
  if (gate.arrived != 0 && gate.insn != insn.index) {
    return x.fail(
        insn,
        "another warp of the warpgroup is at another instruction that all four must run together");
  }
  gate.insn = insn.index;
  if (++gate.arrived < 4) {
    ticket = gate.openings;
    return Outcome::kBlocked;
  }
  gate.open();
  x.error = when_all(x, insn);
  return x.error.ok() ? Outcome::kNext : Outcome::kFailed;
}

}  // namespace octet::ptxsim::insn
