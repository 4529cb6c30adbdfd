// SPDX-License-Identifier: Apache-2.0
// cp.async.bulk.tensor in tile mode, and the prefetch of a tensor's box: PTX ISA 9.7.9.27.1. Which bytes a box is, tile/box.h says.
//
//   load    global -> shared::cta or shared::cluster of this block; its bytes are told to an mbarrier when all have landed
//   store   shared::cta -> global, in the lane's bulk group: read first, then written
//
// The map's 128 bytes are read at issue, the tensor when the copy is performed. Not modelled: im2col, gather4 and scatter4, multicast,
// cta_group, a destination or an mbarrier in another block.
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <memory>

#include "ptxsim/insn/access.h"
#include "ptxsim/insn/families.h"
#include "ptxsim/tile/box.h"

namespace octet::ptxsim::insn {
namespace {

using tile::Box;
using tile::Chunk;

// The map at args[0] and the coordinates in args[1].
std::string take_map(Exec& x, const Insn& insn, int lane, tile::TensorMap* map,
                     tile::Coordinates* at) {
  const uint64_t address = x.address(insn.args[0], lane);
  if (address % tile::kTensorMapAlign != 0)
    return fmt::format("tensor map at 0x{:x}, want a multiple of 64", address);
  Located found;
  std::string wrong = locate(x.machine, x.cta, &x.warp, lane, Space::kGeneric, address,
                             tile::kTensorMapBytes, &found);
  if (!wrong.empty()) return wrong;
  const auto decoded = tile::decode({found.memory->at(found.offset), tile::kTensorMapBytes});
  if (!decoded.ok()) return decoded.status().why;
  *map = *decoded;
  if (map->rank != insn.mods[0])
    return fmt::format("a tensor map of {} dimensions, want {}", map->rank, insn.mods[0]);
  for (int i = 0; i < map->rank; ++i)
    (*at)[static_cast<size_t>(i)] = static_cast<int32_t>(x.words(x.element(insn.args[1], i))[lane]);
  return "";
}

Status perform_load(const AsyncAccess& by, const Box& box, uint64_t window) {
  for (uint32_t i = 0; i < box.num_chunks(); ++i) {
    const Chunk chunk = box.chunk(i);
    std::array<uint8_t, tile::kChunkBytes> bytes{};
    if (chunk.first < chunk.last)
      OCTET_RETURN_IF_ERROR(async_read(by, Space::kGlobal, chunk.global_address + chunk.first,
                                       chunk.last - chunk.first, bytes.data() + chunk.first));
    box.finish_load(chunk, bytes);
    OCTET_RETURN_IF_ERROR(async_write(by, Space::kSharedCluster, window | chunk.shared_address,
                                      chunk.data, bytes.data()));
  }
  return {};
}

// The bytes that a load will write, and none between rows that are shorter than the swizzle's span.
Status poison_box(const AsyncAccess& by, const Box& box, uint64_t window, uint32_t to) {
  if (box.is_dense())
    return async_poison(by, Space::kSharedCluster, window | to,
                        box.num_chunks() * tile::kChunkBytes);
  for (uint32_t i = 0; i < box.num_chunks(); ++i)
    OCTET_RETURN_IF_ERROR(async_poison(by, Space::kSharedCluster,
                                       window | box.chunk(i).shared_address, tile::kChunkBytes));
  return {};
}

// A shared address whose block is this one, apart from its rank.
std::string take_shared(const Exec& x, uint64_t address, uint32_t* offset) {
  if (address >> machine::kRankShift != x.cta.rank)
    return fmt::format("shared address 0x{:x} is another block's, which is not modelled here",
                       address);
  *offset = static_cast<uint32_t>(address & machine::kSharedOffsetMask);
  return "";
}

// args: map, coordinates, destination, mbarrier.
Outcome run_load_lane(Exec& x, const Insn& insn, int lane) {
  tile::TensorMap map;
  tile::Coordinates at{};
  std::string wrong = take_map(x, insn, lane, &map, &at);
  uint32_t to = 0;
  if (wrong.empty()) wrong = take_shared(x, x.address(insn.args[2], lane), &to);
  if (!wrong.empty()) return x.fail(insn, wrong, lane);
  const auto box = Box::make(map, at, to, Box::Direction::kLoad);
  if (!box.ok()) return x.fail(insn, box.status().why, lane);
  const uint64_t window = uint64_t{x.cta.rank} << machine::kRankShift;
  const AsyncAccess by = async_access(x, insn, Proxy::kAsync, false);
  x.error = poison_box(by, *box, window, to);
  if (!x.error.ok()) return Outcome::kFailed;
  const uint64_t mbarrier = x.address(insn.args[3], lane);
  const auto load = [by, box = *box, window, mbarrier]() -> Status {
    OCTET_RETURN_IF_ERROR(perform_load(by, box, window));
    return async_complete(by, mbarrier, box.transaction_bytes());
  };
  return x.post(insn, machine::kUnordered, load, {}, nullptr,
                static_cast<uint64_t>(box->transaction_bytes()));
}

Outcome run_load(Exec& x, const Insn& insn) {
  Outcome outcome = Outcome::kNext;
  machine::for_each_lane(x.lanes, [&](int lane) {
    if (outcome == Outcome::kNext) outcome = run_load_lane(x, insn, lane);
  });
  return outcome;
}

// What a store has read, chunk by chunk.
using StoreBytes = std::vector<std::array<uint8_t, tile::kChunkBytes>>;

Status perform_store_read(const AsyncAccess& by, const Box& box, uint64_t window,
                          StoreBytes& bytes) {
  bytes.resize(box.num_chunks());
  for (uint32_t i = 0; i < box.num_chunks(); ++i) {
    const Chunk chunk = box.chunk(i);
    if (chunk.first < chunk.last)
      OCTET_RETURN_IF_ERROR(async_read(by, Space::kSharedCluster,
                                       window | (chunk.shared_address + chunk.first),
                                       chunk.last - chunk.first, bytes[i].data() + chunk.first));
  }
  return {};
}

Status perform_store_write(const AsyncAccess& by, const Box& box, const StoreBytes& bytes) {
  for (uint32_t i = 0; i < box.num_chunks(); ++i) {
    const Chunk chunk = box.chunk(i);
    if (chunk.first < chunk.last)
      OCTET_RETURN_IF_ERROR(async_write(by, Space::kGlobal, chunk.global_address + chunk.first,
                                        chunk.last - chunk.first, bytes[i].data() + chunk.first));
  }
  return {};
}

// args: map, coordinates, source.
Outcome run_store_lane(Exec& x, const Insn& insn, int lane) {
  tile::TensorMap map;
  tile::Coordinates at{};
  std::string wrong = take_map(x, insn, lane, &map, &at);
  uint32_t from = 0;
  if (wrong.empty()) wrong = take_shared(x, x.address(insn.args[2], lane), &from);
  if (!wrong.empty()) return x.fail(insn, wrong, lane);
  const auto box = Box::make(map, at, from, Box::Direction::kStore);
  if (!box.ok()) return x.fail(insn, box.status().why, lane);
  const uint64_t window = uint64_t{x.cta.rank} << machine::kRankShift;
  const AsyncAccess by = async_access(x, insn, Proxy::kAsync, true);
  if (machine::Order* order = order_of(x.cta); order != nullptr)
    order->join_group(by.token, order_warp(x), machine::GroupKind::kBulkReads);
  machine::AsyncGroups& read = x.warp.bulk_read_groups[static_cast<size_t>(lane)];
  machine::AsyncGroups& written = x.warp.bulk_groups[static_cast<size_t>(lane)];
  const uint64_t read_group = read.join(), written_group = written.join();
  const auto bytes = std::make_shared<StoreBytes>();
  uint64_t first = 0;
  const Outcome outcome = x.post(
      insn, machine::kUnordered,
      [by, box = *box, window, &read, read_group, bytes]() -> Status {
        OCTET_RETURN_IF_ERROR(perform_store_read(by, box, window, *bytes));
        read.done(read_group);
        return {};
      },
      {}, &first);
  if (outcome != Outcome::kNext) return outcome;
  const auto write = [by, box = *box, &written, written_group, bytes]() -> Status {
    OCTET_RETURN_IF_ERROR(perform_store_write(by, box, *bytes));
    written.done(written_group);
    return {};
  };
  return x.post(insn, machine::kUnordered, write,
                first == 0 ? std::vector<uint64_t>{} : std::vector<uint64_t>{first});
}

Outcome run_store(Exec& x, const Insn& insn) {
  Outcome outcome = Outcome::kNext;
  machine::for_each_lane(x.lanes, [&](int lane) {
    if (outcome == Outcome::kNext) outcome = run_store_lane(x, insn, lane);
  });
  return outcome;
}

// A prefetch moves nothing that a kernel could see; its map and coordinates must be right.
Outcome run_prefetch(Exec& x, const Insn& insn) {
  Outcome outcome = Outcome::kNext;
  machine::for_each_lane(x.lanes, [&](int lane) {
    tile::TensorMap map;
    tile::Coordinates at{};
    const std::string wrong = take_map(x, insn, lane, &map, &at);
    if (!wrong.empty() && outcome == Outcome::kNext) outcome = x.fail(insn, wrong, lane);
  });
  return outcome;
}

Status take_dimensions(Binder& b) {
  OCTET_ASSIGN_OR_RETURN(const int i, b.expect_one_of({"1d", "2d", "3d", "4d", "5d"}));
  b.insn().mods[0] = i + 1;
  return {};
}

Status take_tile_mode(Binder& b) {
  if (b.take_one_of({"tile::gather4", "tile::scatter4", "im2col", "im2col::w", "im2col::w::128",
                     "im2col_no_offs"}) >= 0)
    return b.unmodelled("tile mode alone is modelled");
  b.take("tile");
  return {};
}

// [map, {x, y}].
Status bind_map(Binder& b, size_t i) {
  const text::Operand& at = b.operand(i);
  if (at.kind != text::Operand::Kind::kAddress || at.parts.size() != 2)
    return b.refuse(at, "want [map, {coordinates}]");
  OCTET_RETURN_IF_ERROR(b.address_part(at.parts[0]));
  return b.source_vector(at.parts[1], Type::kS32, static_cast<size_t>(b.insn().mods[0]));
}

Status bind_load(Binder& b) {
  OCTET_RETURN_IF_ERROR(take_tile_mode(b));
  OCTET_RETURN_IF_ERROR(b.expect("mbarrier::complete_tx::bytes"));
  if (b.take_one_of({"multicast::cluster", "cta_group::1", "cta_group::2"}) >= 0)
    return b.unmodelled("multicast and cta_group are not modelled");
  const bool has_policy = b.take_cache_hints();
  OCTET_RETURN_IF_ERROR(b.done(has_policy ? 4 : 3));
  OCTET_RETURN_IF_ERROR(bind_map(b, 1));
  OCTET_RETURN_IF_ERROR(b.address(0));
  OCTET_RETURN_IF_ERROR(b.address(2));
  if (has_policy) OCTET_RETURN_IF_ERROR(b.source(3, Type::kB64));
  b.insn().run = run_load;
  return {};
}

Status bind_store(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.expect("shared::cta"));
  OCTET_RETURN_IF_ERROR(take_tile_mode(b));
  OCTET_RETURN_IF_ERROR(b.expect("bulk_group"));
  const bool has_policy = b.take_cache_hints();
  OCTET_RETURN_IF_ERROR(b.done(has_policy ? 3 : 2));
  OCTET_RETURN_IF_ERROR(bind_map(b, 0));
  OCTET_RETURN_IF_ERROR(b.address(1));
  if (has_policy) OCTET_RETURN_IF_ERROR(b.source(2, Type::kB64));
  b.insn().run = run_store;
  return {};
}

}  // namespace

Status bind_cp_async_bulk_tensor(Binder& b) {
  OCTET_RETURN_IF_ERROR(take_dimensions(b));
  if (b.take("global")) return bind_store(b);
  OCTET_RETURN_IF_ERROR(b.expect_one_of({"shared::cta", "shared::cluster"}).status());
  OCTET_RETURN_IF_ERROR(b.expect("global"));
  return bind_load(b);
}

Status bind_cp_async_bulk_prefetch_tensor(Binder& b) {
  OCTET_RETURN_IF_ERROR(take_dimensions(b));
  OCTET_RETURN_IF_ERROR(b.expect("L2"));
  OCTET_RETURN_IF_ERROR(b.expect("global"));
  OCTET_RETURN_IF_ERROR(take_tile_mode(b));
  const bool has_policy = b.take_cache_hints();
  OCTET_RETURN_IF_ERROR(b.done(has_policy ? 2 : 1));
  OCTET_RETURN_IF_ERROR(bind_map(b, 0));
  if (has_policy) OCTET_RETURN_IF_ERROR(b.source(1, Type::kB64));
  b.insn().run = run_prefetch;
  return {};
}

}  // namespace octet::ptxsim::insn
