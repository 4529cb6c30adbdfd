// SPDX-License-Identifier: Apache-2.0
// ld, ldu, st, prefetch, createpolicy: PTX ISA 9.7.9.8 to 9.7.9.12, 9.7.9.16 to 9.7.9.18.
//
// Caches, evictions and prefetches say nothing of values, so hints are read and forgotten. .volatile, .relaxed, .acquire and .mmio
// loads are polls: whoever makes one lets others go on, and one that sees the same again makes no progress (machine/schedule.h).
#include <cstring>

#include "ptxsim/insn/access.h"
#include "ptxsim/insn/families.h"
#include "ptxsim/insn/memory_forms.h"

namespace octet::ptxsim::insn {
namespace {

enum Mod { kSpace, kElementBytes, kSigned, kStrong, kCount };

// An element as it stands in a register that may be wider than it.
uint64_t extended(uint64_t value, int bytes, bool is_signed, int bits) {
  if (!is_signed || bytes * 8 >= bits) return value;
  const int shift = 64 - 8 * bytes;
  const auto wide = uint64_t(int64_t(value << shift) >> shift);
  return bits == 64 ? wide : wide & ((uint64_t{1} << bits) - 1);
}

machine::AccessKind kind_of(const Insn& insn) {
  return insn.mods[kStrong] != 0 ? machine::AccessKind::kStrong : machine::AccessKind::kPlain;
}

machine::Slot slot_of(const Exec& x, const Arg& arg, int i) {
  return arg.count == 0 ? arg.slot : x.element(arg, i);
}

Outcome run_ld(Exec& x, const Insn& insn) {
  const Arg &d = insn.args[0], &address = insn.args[1];
  const int bytes = insn.mods[kElementBytes], count = insn.mods[kCount];
  for (LaneMask left = x.lanes; left != 0; left &= left - 1) {
    const int lane = machine::first_lane(left);
    const uint8_t* from = read_lane(x, insn, Space(insn.mods[kSpace]), x.address(address, lane),
                                    uint32_t(bytes * count), lane, kind_of(insn));
    if (from == nullptr) return Outcome::kFailed;
    for (int i = 0; i < count; ++i) {
      const machine::Slot slot = slot_of(x, d, i);
      if (bytes == 16) {
        if (slot != machine::kNoSlot) std::memcpy(x.registers + slot + 4 * lane, from + 16 * i, 16);
        continue;
      }
      uint64_t value = 0;
      std::memcpy(&value, from + i * bytes, size_t(bytes));
      x.set(slot, d.bits, lane, extended(value, bytes, insn.mods[kSigned] != 0, d.bits));
      if (insn.mods[kStrong] != 0) x.seen = x.seen * 31 + value;
    }
  }
  return insn.mods[kStrong] != 0 ? Outcome::kYielded : Outcome::kNext;
}

// Parameters are the same for all lanes, and the address is a literal.
Outcome run_ld_param(Exec& x, const Insn& insn) {
  if (x.lanes != machine::kAllLanes) return run_ld(x, insn);
  const Arg &d = insn.args[0], &address = insn.args[1];
  const int bytes = insn.mods[kElementBytes], count = insn.mods[kCount];
  const uint64_t at = x.address(address, 0);
  for (int lane = 1; lane < machine::kLanes; ++lane) {
    if (x.address(address, lane) != at) return run_ld(x, insn);
  }
  const uint8_t* from = read_lane(x, insn, Space::kParam, at, uint32_t(bytes * count), 0);
  if (from == nullptr) return Outcome::kFailed;
  for (int i = 0; i < count; ++i) {
    uint64_t value = 0;
    std::memcpy(&value, from + i * bytes, size_t(bytes));
    value = extended(value, bytes, insn.mods[kSigned] != 0, d.bits);
    const machine::Slot slot = slot_of(x, d, i);
    for (int lane = 0; lane < machine::kLanes; ++lane) x.set(slot, d.bits, lane, value);
  }
  return Outcome::kNext;
}

Outcome run_st(Exec& x, const Insn& insn) {
  const Arg &address = insn.args[0], &value = insn.args[1];
  const int bytes = insn.mods[kElementBytes], count = insn.mods[kCount];
  for (LaneMask left = x.lanes; left != 0; left &= left - 1) {
    const int lane = machine::first_lane(left);
    uint8_t* to = write_lane(x, insn, Space(insn.mods[kSpace]), x.address(address, lane),
                             uint32_t(bytes * count), lane, kind_of(insn));
    if (to == nullptr) return Outcome::kFailed;
    for (int i = 0; i < count; ++i) {
      const machine::Slot slot = slot_of(x, value, i);
      if (bytes == 16) {
        std::memcpy(to + 16 * i, x.registers + slot + 4 * lane, 16);
        continue;
      }
      Arg element;
      element.slot = slot;
      element.bits = value.bits;
      const uint64_t bits = x.value(element, lane);
      std::memcpy(to + i * bytes, &bits, size_t(bytes));
    }
  }
  return Outcome::kNext;
}

// {order}{scope}{space}{hints}{vector}{type}, in the orders that PTX has.
Status bind_access(Binder& b, bool is_load) {
  Insn& insn = b.insn();
  const int order = take_order(b);
  if (is_load ? order == kRelease : order == kAcquire)
    return b.refuse("the order is not one of this instruction's");
  take_scope(b);
  const Space space = take_space(b);
  const bool is_nc = is_load && b.take("nc");
  bool has_policy = b.take_cache_hints();
  const int vector = b.take_one_of({"v2", "v4", "v8"});
  OCTET_ASSIGN_OR_RETURN(const Type type, b.take_type());
  has_policy |= b.take_cache_hints();
  if (type == Type::kPred || type == Type::kF16 || type == Type::kF16x2)
    return b.refuse("the type is not one of memory");
  if (is_nc && space != Space::kGlobal) return b.refuse(".nc is for .global alone");
  const int bytes = text::type_bits(type) / 8, count = vector < 0 ? 1 : 2 << vector;
  if (bytes * count > 32 || (bytes * count > 16 && space != Space::kGlobal))
    return b.refuse("more bytes than one access has");
  OCTET_RETURN_IF_ERROR(b.done(has_policy ? 3 : 2));
  const auto bind_value = [&](size_t i) -> Status {
    if (vector >= 0) {
      return is_load ? b.result_vector(i, type, size_t(count), true)
                     : b.source_vector(i, type, size_t(count), true);
    }
    return is_load ? b.wide_result(b.operand(i), type) : b.wide_source(b.operand(i), type);
  };
  if (is_load) OCTET_RETURN_IF_ERROR(bind_value(0));
  OCTET_RETURN_IF_ERROR(b.address(is_load ? 1 : 0));
  if (!is_load) OCTET_RETURN_IF_ERROR(bind_value(1));
  if (has_policy) OCTET_RETURN_IF_ERROR(b.source(2, Type::kB64));
  insn.mods = {int(space), bytes, is_signed(type), order != kWeak, count};
  insn.run = !is_load ? run_st : space == Space::kParam ? run_ld_param : run_ld;
  return {};
}

}  // namespace

Status bind_ld(Binder& b) { return bind_access(b, true); }
Status bind_st(Binder& b) { return bind_access(b, false); }

// Its address is not asked: a prefetch beyond an allocation faults nowhere.
Status bind_prefetch(Binder& b) {
  b.take("param");
  take_space(b);
  b.take("tensormap");
  b.take_one_of({"L1", "L2", "L2::evict_last", "L2::evict_normal"});
  OCTET_RETURN_IF_ERROR(b.done(1));
  OCTET_RETURN_IF_ERROR(b.address(0));
  b.insn().run = +[](Exec&, const Insn&) { return Outcome::kNext; };
  return {};
}

// A policy is a number that only caches read: 0 here.
Status bind_createpolicy(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.expect("fractional"));
  for (int i = 0; i < 2; ++i)
    b.take_one_of({"L2::evict_first", "L2::evict_last", "L2::evict_normal", "L2::evict_unchanged"});
  OCTET_RETURN_IF_ERROR(b.expect("b64"));
  OCTET_RETURN_IF_ERROR(b.done(1, 2));
  OCTET_RETURN_IF_ERROR(b.result(0, Type::kB64));
  if (b.num_operands() == 2) OCTET_RETURN_IF_ERROR(b.source(1, Type::kF32));
  b.insn().run = +[](Exec& x, const Insn& insn) {
    machine::for_each_lane(x.lanes, [&](int lane) { x.set(insn.args[0].slot, 64, lane, 0); });
    return Outcome::kNext;
  };
  return {};
}

}  // namespace octet::ptxsim::insn
