// SPDX-License-Identifier: Apache-2.0
// atom and red on one value: PTX ISA 9.7.13.5, 9.7.13.7. An instruction's lanes go one after the other, the lowest first.
//
// Modelled: and or xor exch cas add inc dec min max of 32 and 64 bits, add of f32. Vectors, halves and red.async are not.
#include <algorithm>
#include <cstring>

#include "ptxsim/insn/families.h"
#include "ptxsim/insn/memory_forms.h"
#include "ptxsim/insn/numeric.h"

namespace octet::ptxsim::insn {
namespace {

enum Op { kAnd, kOr, kXor, kExch, kAdd, kInc, kDec, kMin, kMax, kCas };
enum Mod { kSpace, kOp, kType, kIsRed };

template <class T>
T extreme(Op op, T a, T c) {
  return op == kMin ? std::min(a, c) : std::max(a, c);
}

// In global memory subnormal operands and results are zeros of their sign; in shared memory they stay (PTX ISA 9.7.13.5).
uint64_t add_f32(uint64_t old, uint64_t a, bool is_global) {
  if (!is_global) return bits32(f32(uint32_t(old)) + f32(uint32_t(a)));
  return flush(bits32(f32(flush(uint32_t(old))) + f32(flush(uint32_t(a)))));
}

uint64_t apply(Op op, Type type, uint64_t old, uint64_t a, uint64_t c, bool is_global) {
  switch (op) {
    case kAnd:
      return old & a;
    case kOr:
      return old | a;
    case kXor:
      return old ^ a;
    case kExch:
      return a;
    case kCas:
      return old == a ? c : old;
    case kInc:
      return old >= a ? 0 : old + 1;
    case kDec:
      return old == 0 || old > a ? a : old - 1;
    case kAdd:
      if (type == Type::kF32) return add_f32(old, a, is_global);
      return old + a;
    default:
      break;
  }
  switch (type) {
    case Type::kS32:
      return uint32_t(extreme(op, int32_t(uint32_t(old)), int32_t(uint32_t(a))));
    case Type::kS64:
      return uint64_t(extreme(op, int64_t(old), int64_t(a)));
    default:
      return extreme(op, old, a);
  }
}

Outcome run_atomic(Exec& x, const Insn& insn) {
  const bool is_red = insn.mods[kIsRed] != 0;
  const Arg& address = insn.args[is_red ? 0 : 1];
  const Arg& a = insn.args[is_red ? 1 : 2];
  const auto op = Op(insn.mods[kOp]);
  const int bytes = insn.bits / 8;
  bool changed = false;
  for (LaneMask left = x.lanes; left != 0; left &= left - 1) {
    const int lane = machine::first_lane(left);
    uint8_t* at = update_lane(x, insn, Space(insn.mods[kSpace]), x.address(address, lane),
                              uint32_t(bytes), lane);
    if (at == nullptr) return Outcome::kFailed;
    uint64_t old = 0;
    std::memcpy(&old, at, size_t(bytes));
    const uint64_t c = op == kCas ? x.value(insn.args[3], lane) : 0;
    const bool is_global = x.address(address, lane) >= machine::kGlobalBase;
    const uint64_t now = apply(op, Type(insn.mods[kType]), old, x.value(a, lane), c, is_global);
    std::memcpy(at, &now, size_t(bytes));
    if (!is_red) x.set(insn.args[0].slot, insn.args[0].bits, lane, old);
    changed |= std::memcmp(&old, &now, size_t(bytes)) != 0;
    x.seen = x.seen * 31 + old;
  }
  // One that changes nothing is a poll: a lock that is taken, a counter that is read.
  return changed || is_red ? Outcome::kNext : Outcome::kYielded;
}

Status bind_atomic(Binder& b, bool is_red) {
  take_order(b);
  take_scope(b);
  const Space space = take_space(b);
  OCTET_ASSIGN_OR_RETURN(const int op, b.expect_one_of({"and", "or", "xor", "exch", "add", "inc",
                                                        "dec", "min", "max", "cas"}));
  const bool has_policy = b.take_cache_hints();
  OCTET_ASSIGN_OR_RETURN(const Type type,
                         b.take_type({Type::kB32, Type::kB64, Type::kU32, Type::kU64, Type::kS32,
                                      Type::kS64, Type::kF32}));
  if (is_red && (op == kExch || op == kCas)) return b.refuse("red has no such operation");
  if (type == Type::kF32 && op != kAdd) return b.refuse("f32 is only added");
  const size_t operands = (is_red ? 2 : 3) + (op == kCas ? 1 : 0) + (has_policy ? 1 : 0);
  OCTET_RETURN_IF_ERROR(b.done(operands));
  size_t i = 0;
  if (!is_red) OCTET_RETURN_IF_ERROR(b.result(i++, type));
  OCTET_RETURN_IF_ERROR(b.address(i++));
  OCTET_RETURN_IF_ERROR(b.source(i++, type));
  if (op == kCas) OCTET_RETURN_IF_ERROR(b.source(i++, type));
  if (has_policy) OCTET_RETURN_IF_ERROR(b.source(i, Type::kB64));
  b.insn().bits = uint8_t(text::type_bits(type));
  b.insn().mods = {int(space), op, int(type), is_red};
  b.insn().run = run_atomic;
  return {};
}

}  // namespace

Status bind_atom(Binder& b) { return bind_atomic(b, false); }
Status bind_red(Binder& b) { return bind_atomic(b, true); }

}  // namespace octet::ptxsim::insn
