// SPDX-License-Identifier: Apache-2.0
// cp.async.bulk and its groups: PTX ISA 9.7.9.25.4, 9.7.9.25.5.
//
//   global ──► shared (own, or of the cluster)    an mbarrier's transactions are completed by the bytes
//   shared ──► shared of the cluster              the same
//   shared ──► global                             the thread's bulk group: read first, written later
// Addresses and sizes are multiples of 16. A copy is one operation; those of multicast one a block.
#include <cstring>
#include <fmt/format.h>

#include "ptxsim/insn/access.h"
#include "ptxsim/insn/families.h"

namespace octet::ptxsim::insn {
namespace {

constexpr uint64_t kUnit = 16;

struct Copy {
  AsyncAccess by;
  Space to_space, from_space;
  uint64_t to = 0, from = 0, bytes = 0, mbarrier = 0;
};

std::string misaligned(const Copy& copy) {
  if (copy.to % kUnit == 0 && copy.from % kUnit == 0 && copy.bytes % kUnit == 0) return "";
  return fmt::format("{} bytes from {:#x} to {:#x}: not all multiples of {}", copy.bytes, copy.from,
                     copy.to, kUnit);
}

Status perform_into_shared(const Copy& copy) {
  std::vector<uint8_t> data(copy.bytes);
  OCTET_RETURN_IF_ERROR(async_read(copy.by, copy.from_space, copy.from, copy.bytes, data.data()));
  OCTET_RETURN_IF_ERROR(async_write(copy.by, copy.to_space, copy.to, copy.bytes, data.data()));
  return async_complete(copy.by, copy.mbarrier, int64_t(copy.bytes));
}

// In which block the copy and its mbarrier are: their own, or, by a mask of ranks, the same offsets in others.
Outcome post_into_shared(Exec& x, const Insn& insn, const Copy& copy) {
  x.error = async_poison(copy.by, copy.to_space, copy.to, copy.bytes);
  if (!x.error.ok()) return Outcome::kFailed;
  return x.post(
      insn, machine::kUnordered, [copy] { return perform_into_shared(copy); }, {}, nullptr,
      copy.from_space == Space::kGlobal ? copy.bytes : 0);
}

uint64_t at_rank(uint64_t address, uint32_t rank) {
  return (address & machine::kSharedOffsetMask) | uint64_t{rank} << machine::kRankShift;
}

enum Mod { kToCluster, kFromGlobal, kMulticast };

// args: destination, source, bytes, mbarrier, mask of ranks.
Outcome run_into_shared(Exec& x, const Insn& insn) {
  for (LaneMask left = x.lanes; left != 0; left &= left - 1) {
    const int lane = machine::first_lane(left);
    Copy copy{async_access(x, insn, Proxy::kAsync, true),
              insn.mods[kToCluster] != 0 ? Space::kSharedCluster : Space::kShared,
              insn.mods[kFromGlobal] != 0 ? Space::kGlobal : Space::kShared,
              x.address(insn.args[0], lane),
              x.address(insn.args[1], lane),
              x.words(insn.args[2])[lane],
              x.address(insn.args[3], lane)};
    if (const std::string wrong = misaligned(copy); !wrong.empty())
      return x.fail(insn, wrong, lane);
    if (insn.mods[kMulticast] == 0) {
      const Outcome outcome = post_into_shared(x, insn, copy);
      if (outcome != Outcome::kNext) return outcome;
      continue;
    }
    const uint32_t ranks = x.words(insn.args[4])[lane] & 0xFFFF;
    const uint64_t to = copy.to, mbarrier = copy.mbarrier;
    for (uint32_t rank = 0; rank < 16; ++rank) {
      if ((ranks >> rank & 1) == 0) continue;
      copy.by = async_access(x, insn, Proxy::kAsync, true);  // one for each mbarrier
      copy.to = at_rank(to, rank);
      copy.mbarrier = at_rank(mbarrier, rank);
      const Outcome outcome = post_into_shared(x, insn, copy);
      if (outcome != Outcome::kNext) return outcome;
    }
  }
  return Outcome::kNext;
}

// Two operations: the bytes are read, and, later, written.
Outcome run_into_global(Exec& x, const Insn& insn) {
  for (LaneMask left = x.lanes; left != 0; left &= left - 1) {
    const int lane = machine::first_lane(left);
    const Copy copy{async_access(x, insn, Proxy::kAsync, true),
                    Space::kGlobal,
                    Space::kShared,
                    x.address(insn.args[0], lane),
                    x.address(insn.args[1], lane),
                    x.words(insn.args[2])[lane],
                    0};
    if (const std::string wrong = misaligned(copy); !wrong.empty())
      return x.fail(insn, wrong, lane);
    machine::Warp* warp = &x.warp;
    if (machine::Order* order = order_of(x.cta); order != nullptr)
      order->join_group(copy.by.token, order_warp(x), machine::GroupKind::kBulkReads);
    const uint64_t group = warp->bulk_groups[lane].join(),
                   read_group = warp->bulk_read_groups[lane].join();
    const auto data = std::make_shared<std::vector<uint8_t>>(copy.bytes);
    uint64_t id = 0;
    Outcome outcome = x.post(
        insn, machine::kUnordered,
        [=] {
          warp->bulk_read_groups[lane].done(read_group);
          return async_read(copy.by, copy.from_space, copy.from, copy.bytes, data->data());
        },
        {}, &id);
    if (outcome != Outcome::kNext) return outcome;
    outcome =
        x.post(insn, machine::kUnordered,
               [=] {
                 warp->bulk_groups[lane].done(group);
                 return async_write(copy.by, copy.to_space, copy.to, copy.bytes, data->data());
               },
               {id});
    if (outcome != Outcome::kNext) return outcome;
  }
  return Outcome::kNext;
}

Status bind_into_global(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.expect("shared::cta"));
  OCTET_RETURN_IF_ERROR(b.expect("bulk_group"));
  const bool has_policy = b.take_cache_hints();
  OCTET_RETURN_IF_ERROR(b.done(has_policy ? 4 : 3));
  OCTET_RETURN_IF_ERROR(b.address(0));
  OCTET_RETURN_IF_ERROR(b.address(1));
  OCTET_RETURN_IF_ERROR(b.source(2, Type::kU32));
  if (has_policy) OCTET_RETURN_IF_ERROR(b.source(3, Type::kB64));
  b.insn().run = run_into_global;
  return {};
}

}  // namespace

Status bind_cp_async_bulk(Binder& b) {
  if (b.take("global")) return bind_into_global(b);
  OCTET_ASSIGN_OR_RETURN(const int to_cluster, b.expect_one_of({"shared::cta", "shared::cluster"}));
  OCTET_ASSIGN_OR_RETURN(const int from_shared, b.expect_one_of({"global", "shared::cta"}));
  if (from_shared != 0 && to_cluster == 0)
    return b.refuse("want .shared::cluster as the destination");
  OCTET_RETURN_IF_ERROR(b.expect("mbarrier::complete_tx::bytes"));
  const bool multicast = b.take("multicast::cluster");
  const bool has_policy = b.take_cache_hints();
  OCTET_RETURN_IF_ERROR(b.done(size_t(4) + multicast + has_policy));
  OCTET_RETURN_IF_ERROR(b.address(0));
  OCTET_RETURN_IF_ERROR(b.address(1));
  OCTET_RETURN_IF_ERROR(b.source(2, Type::kU32));
  OCTET_RETURN_IF_ERROR(b.address(3));
  if (multicast) OCTET_RETURN_IF_ERROR(b.source(4, Type::kB16));
  if (has_policy) OCTET_RETURN_IF_ERROR(b.source(b.num_operands() - 1, Type::kB64));
  b.insn().mods = {to_cluster, from_shared == 0, multicast};
  b.insn().run = run_into_shared;
  return {};
}

// Says nothing of values.
Status bind_cp_async_bulk_prefetch(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.expect("L2"));
  OCTET_RETURN_IF_ERROR(b.expect("global"));
  const bool has_policy = b.take_cache_hints();
  OCTET_RETURN_IF_ERROR(b.done(has_policy ? 3 : 2));
  OCTET_RETURN_IF_ERROR(b.address(0));
  OCTET_RETURN_IF_ERROR(b.source(1, Type::kU32));
  if (has_policy) OCTET_RETURN_IF_ERROR(b.source(2, Type::kB64));
  b.insn().run = +[](Exec&, const Insn&) { return Outcome::kNext; };
  return {};
}

Status bind_cp_async_bulk_commit(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.done(0));
  b.insn().run = +[](Exec& x, const Insn&) {
    machine::for_each_lane(x.lanes, [&](int lane) {
      x.warp.bulk_groups[lane].commit();
      x.warp.bulk_read_groups[lane].commit();
    });
    if (machine::Order* order = order_of(x.cta); order != nullptr)
      order->commit_group(order_warp(x), machine::GroupKind::kBulkReads);
    return Outcome::kNext;
  };
  return {};
}

Status bind_cp_async_bulk_wait(Binder& b) {
  const bool reads = b.take("read");
  OCTET_RETURN_IF_ERROR(b.done(1));
  OCTET_ASSIGN_OR_RETURN(const int64_t most, b.number(0));
  b.insn().mods = {int32_t(most), reads};
  b.insn().run = +[](Exec& x, const Insn& insn) {
    bool done = true;
    auto& groups = insn.mods[1] != 0 ? x.warp.bulk_read_groups : x.warp.bulk_groups;
    machine::for_each_lane(x.lanes,
                           [&](int lane) { done &= groups[lane].at_most(uint64_t(insn.mods[0])); });
    if (!done) return Outcome::kBlocked;
    if (machine::Order* order = order_of(x.cta); order != nullptr)
      order->wait_group(order_warp(x), machine::GroupKind::kBulkReads, uint64_t(insn.mods[0]));
    return Outcome::kNext;
  };
  return {};
}

}  // namespace octet::ptxsim::insn
