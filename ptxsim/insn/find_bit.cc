// SPDX-License-Identifier: Apache-2.0
// Bits by their places: PTX ISA 9.7.1.17 (bfind), 9.7.1.16 (fns).
#include <bit>

#include "ptxsim/insn/families.h"

namespace octet::ptxsim::insn {

// The highest bit that is not the sign; -1: none. .shiftamt: how far left it is from the top (PTX ISA 9.7.1.17).
Status bind_bfind(Binder& b) {
  const bool is_amount = b.take("shiftamt");
  OCTET_ASSIGN_OR_RETURN(const Type type,
                         b.take_type({Type::kU32, Type::kU64, Type::kS32, Type::kS64}));
  OCTET_RETURN_IF_ERROR(b.done(2));
  OCTET_RETURN_IF_ERROR(b.result(0, Type::kU32));
  OCTET_RETURN_IF_ERROR(b.source(1, type));
  b.insn().mods = {is_amount, is_signed(type)};
  b.insn().run = +[](Exec& x, const Insn& insn) {
    const bool is_wide = insn.args[1].bits == 64;
    machine::for_each_lane(x.lanes, [&](int lane) {
      uint64_t a = x.value(insn.args[1], lane);
      if (insn.mods[1] != 0) {
        const int64_t s = is_wide ? int64_t(a) : int64_t(int32_t(uint32_t(a)));
        a = s < 0 ? (is_wide ? ~a : uint64_t(uint32_t(~a))) : a;
      }
      uint32_t d = a == 0 ? ~0u : uint32_t(63 - std::countl_zero(a));
      if (insn.mods[0] != 0 && a != 0) d = uint32_t(is_wide ? 63 : 31) - d;
      x.set(insn.args[0].slot, 32, lane, d);
    });
    return Outcome::kNext;
  };
  return {};
}

namespace {

// The |n|-th set bit from `base` on, upwards or, for n < 0, downwards; n = 0: `base` itself. -1: none.
uint32_t find_nth(uint32_t mask, uint32_t base, int32_t n) {
  if (n == 0) return (mask >> base & 1) != 0 ? base : ~0u;
  int64_t left = n < 0 ? -int64_t{n} : n;
  for (int64_t at = base; at >= 0 && at < 32; at += n < 0 ? -1 : 1)
    if ((mask >> at & 1) != 0 && --left == 0) return uint32_t(at);
  return ~0u;
}

}  // namespace

Status bind_fns(Binder& b) {
  OCTET_ASSIGN_OR_RETURN(const Type type, b.take_type({Type::kB32}));
  OCTET_RETURN_IF_ERROR(b.done(4));
  OCTET_RETURN_IF_ERROR(b.result(0, type));
  OCTET_RETURN_IF_ERROR(b.source(1, type));
  OCTET_RETURN_IF_ERROR(b.source(2, Type::kU32));
  OCTET_RETURN_IF_ERROR(b.source(3, Type::kS32));
  b.insn().run = +[](Exec& x, const Insn& insn) {
    const auto& args = insn.args;
    for (LaneMask left = x.lanes; left != 0; left &= left - 1) {
      const int lane = machine::first_lane(left);
      const uint32_t base = x.words(args[2])[lane];
      if (base > 31)
        return x.fail(insn, "fns from bit " + std::to_string(base) + ", want at most 31", lane);
      x.set(args[0].slot, 32, lane,
            find_nth(x.words(args[1])[lane], base, int32_t(x.words(args[3])[lane])));
    }
    return Outcome::kNext;
  };
  return {};
}

}  // namespace octet::ptxsim::insn
