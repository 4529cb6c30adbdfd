// SPDX-License-Identifier: Apache-2.0
// mov, cvta, mapa, getctarank, isspacep: PTX ISA 9.7.9.3, 9.7.9.20, 9.7.9.23 to 9.7.9.25.
#include "ptxsim/insn/access.h"
#include "ptxsim/insn/elementwise.h"
#include "ptxsim/insn/families.h"
#include "ptxsim/insn/names.h"
#include "ptxsim/machine/special.h"

namespace octet::ptxsim::insn {
namespace {

using text::Operand;

template <class L>
machine::Run copy_of() {
  return unary<L>([](L a) { return a; });
}

struct Wide {  // 128 bits
  uint64_t lo = 0, hi = 0;
};
Wide* wide(const Exec& x, const Arg& arg) {
  return reinterpret_cast<Wide*>(x.registers + arg.slot);
}

// The elements of a vector in one register, the first lowest.
Outcome pack(Exec& x, const Insn& insn) {
  const Arg &d = insn.args[0], &from = insn.args[1];
  if (d.slot == machine::kNoSlot) return Outcome::kNext;
  const int step = d.bits / from.count;
  machine::for_each_lane(x.lanes, [&](int lane) {
    Wide value;
    for (int i = 0; i < from.count; ++i) {
      Arg element;
      element.slot = x.element(from, i);
      element.bits = from.bits;
      uint64_t& half = i * step < 64 ? value.lo : value.hi;
      half |= x.value(element, lane) << (i * step % 64);
    }
    if (d.bits == 128) {
      wide(x, d)[lane] = value;
    } else {
      x.set(d.slot, d.bits, lane, value.lo);
    }
  });
  return Outcome::kNext;
}

Outcome unpack(Exec& x, const Insn& insn) {
  const Arg &into = insn.args[0], &a = insn.args[1];
  const int step = a.bits / into.count;
  machine::for_each_lane(x.lanes, [&](int lane) {
    const Wide value = a.bits == 128 ? wide(x, a)[lane] : Wide{x.value(a, lane), 0};
    for (int i = 0; i < into.count; ++i) {
      uint64_t part = (i * step < 64 ? value.lo : value.hi) >> (i * step % 64);
      if (step < 64) part &= (uint64_t{1} << step) - 1;
      x.set(x.element(into, i), into.bits, lane, part);
    }
  });
  return Outcome::kNext;
}

Type type_of_bits(int bits) {
  return bits == 8 ? Type::kB8 : bits == 16 ? Type::kB16 : bits == 32 ? Type::kB32 : Type::kB64;
}

Status bind_vector_mov(Binder& b, Type type, bool packs) {
  const Operand& vector = b.operand(packs ? 1 : 0);
  const size_t count = vector.parts.size();
  const int bits = text::type_bits(type);
  if ((count != 2 && count != 4) || bits / int(count) < 8)
    return b.refuse(vector, "want 2 or 4 elements of 8 bits or more");
  const Type element = type_of_bits(bits / int(count));
  if (packs) {
    OCTET_RETURN_IF_ERROR(b.result(0, type));
    OCTET_RETURN_IF_ERROR(b.source_vector(1, element, count));
    b.insn().run = pack;
  } else {
    OCTET_RETURN_IF_ERROR(b.result_vector(0, element, count));
    OCTET_RETURN_IF_ERROR(b.source(1, type));
    b.insn().run = unpack;
  }
  return {};
}

// %clock, %clock64, %globaltimer: instructions that the machine has run.
Outcome read_clock(Exec& x, const Insn& insn) {
  const Arg& d = insn.args[0];
  machine::for_each_lane(x.lanes, [&](int lane) { x.set(d.slot, d.bits, lane, x.machine.now()); });
  return Outcome::kNext;
}

}  // namespace

Status bind_mov(Binder& b) {
  OCTET_ASSIGN_OR_RETURN(const Type type, b.take_type());
  OCTET_RETURN_IF_ERROR(b.done(2));
  const Operand &d = b.operand(0), &a = b.operand(1);
  if (type == Type::kPred) {
    OCTET_RETURN_IF_ERROR(b.predicate_result(0));
    OCTET_RETURN_IF_ERROR(b.predicate_source(1));
    b.insn().run = +[](Exec& x, const Insn& insn) {
      x.set_predicate(insn.args[0].slot, x.predicate(insn.args[1]));
      return Outcome::kNext;
    };
    return {};
  }
  if (a.kind == Operand::Kind::kVector) return bind_vector_mov(b, type, true);
  if (d.kind == Operand::Kind::kVector) return bind_vector_mov(b, type, false);
  OCTET_RETURN_IF_ERROR(b.result(0, type));
  if (a.kind == Operand::Kind::kName) {
    const auto special = Names::find_special_number(a.name);
    if (special && *special >= int(machine::SpecialRegister::kClock)) {
      b.insn().run = read_clock;
      return {};
    }
  }
  OCTET_RETURN_IF_ERROR(b.source(1, type));
  switch (text::type_bits(type)) {
    case 64:
      b.insn().run = copy_of<uint64_t>();
      break;
    case 128:
      b.insn().run = +[](Exec& x, const Insn& insn) {
        if (insn.args[0].slot == machine::kNoSlot) return Outcome::kNext;
        machine::for_each_lane(
            x.lanes, [&](int lane) { wide(x, insn.args[0])[lane] = wide(x, insn.args[1])[lane]; });
        return Outcome::kNext;
      };
      break;
    default:
      b.insn().run = copy_of<uint32_t>();
  }
  return {};
}

// A generic address is the address in its space plus the space's window; those of global memory are the same (access.h).
Status bind_cvta(Binder& b) {
  const bool is_to = b.take("to");
  OCTET_ASSIGN_OR_RETURN(const int space,
                         b.expect_one_of({"global", "shared", "shared::cta", "shared::cluster",
                                          "param", "local", "const", "param::entry"}));
  OCTET_RETURN_IF_ERROR(b.expect("u64"));
  OCTET_RETURN_IF_ERROR(b.done(2));
  OCTET_RETURN_IF_ERROR(b.result(0, Type::kU64));
  OCTET_RETURN_IF_ERROR(b.source(1, Type::kU64));
  const bool is_shared = space >= 1 && space <= 3, is_param = space == 4 || space == 7,
             is_local = space == 5;
  if (is_shared) {
    b.insn().run = is_to ? unary<uint64_t>([](uint64_t a) { return a - machine::kSharedWindow; })
                         : unary<uint64_t>([](uint64_t a) { return a + machine::kSharedWindow; });
  } else if (is_param) {
    b.insn().run = is_to ? unary<uint64_t>([](uint64_t a) { return a - machine::kParamWindow; })
                         : unary<uint64_t>([](uint64_t a) { return a + machine::kParamWindow; });
  } else if (is_local) {
    b.insn().run = is_to ? unary<uint64_t>([](uint64_t a) { return a - machine::kLocalWindow; })
                         : unary<uint64_t>([](uint64_t a) { return a + machine::kLocalWindow; });
  } else {
    b.insn().run = copy_of<uint64_t>();
  }
  return {};
}

// The same offset in another block's shared memory.
Status bind_mapa(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.expect("shared::cluster"));
  OCTET_ASSIGN_OR_RETURN(const Type type, b.take_type({Type::kU32, Type::kU64}));
  OCTET_RETURN_IF_ERROR(b.done(3));
  OCTET_RETURN_IF_ERROR(b.result(0, type));
  OCTET_RETURN_IF_ERROR(b.source(1, type));
  OCTET_RETURN_IF_ERROR(b.source(2, Type::kU32));
  b.insn().run = +[](Exec& x, const Insn& insn) {
    const auto& args = insn.args;
    Outcome outcome = Outcome::kNext;
    machine::for_each_lane(x.lanes, [&](int lane) {
      const uint64_t rank = x.words(args[2])[lane];
      if (rank >= x.cta.cluster->ctas.size())
        outcome = x.fail(insn, "a rank beyond the cluster's", lane);
      x.set(args[0].slot, args[0].bits, lane,
            (x.value(args[1], lane) & machine::kSharedOffsetMask) | rank << machine::kRankShift);
    });
    return outcome;
  };
  return {};
}

Status bind_getctarank(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.expect("shared::cluster"));
  OCTET_ASSIGN_OR_RETURN(const Type type, b.take_type({Type::kU32, Type::kU64}));
  OCTET_RETURN_IF_ERROR(b.done(2));
  OCTET_RETURN_IF_ERROR(b.result(0, Type::kU32));
  OCTET_RETURN_IF_ERROR(b.source(1, type));
  b.insn().run = type == Type::kU32
                     ? unary<uint32_t>([](uint32_t a) { return a >> machine::kRankShift; })
                     : unary<uint32_t, uint64_t>(
                           [](uint64_t a) { return uint32_t(a >> machine::kRankShift); });
  return {};
}

Status bind_isspacep(Binder& b) {
  OCTET_ASSIGN_OR_RETURN(const int space, b.expect_one_of({"global", "shared", "shared::cta",
                                                           "shared::cluster", "local", "param"}));
  OCTET_RETURN_IF_ERROR(b.done(2));
  OCTET_RETURN_IF_ERROR(b.predicate_result(0));
  OCTET_RETURN_IF_ERROR(b.source(1, Type::kU64));
  b.insn().mods[0] = space;
  b.insn().run = +[](Exec& x, const Insn& insn) {
    LaneMask holds = 0;
    machine::for_each_lane(x.lanes, [&](int lane) {
      const uint64_t window = x.longs(insn.args[1])[lane] >> 40;
      const bool is_shared = window == machine::kSharedWindow >> 40;
      const bool is_own =
          is_shared && (uint32_t(x.longs(insn.args[1])[lane]) >> machine::kRankShift) == x.cta.rank;
      const bool is[] = {window >= machine::kGlobalBase >> 40,
                         is_own,
                         is_own,
                         is_shared,
                         window == machine::kLocalWindow >> 40,
                         window == machine::kParamWindow >> 40};
      holds |= LaneMask(is[insn.mods[0]]) << lane;
    });
    x.set_predicate(insn.args[0].slot, holds);
    return Outcome::kNext;
  };
  return {};
}

}  // namespace octet::ptxsim::insn
