// SPDX-License-Identifier: Apache-2.0
// What the lanes of a warp do together: PTX ISA 9.7.9.6 (shfl.sync), 9.7.13.9 to 9.7.13.14 (vote, match, activemask, redux, elect),
// 9.7.13.2 (bar.warp.sync).
//
// The lanes that a membermask names wait for each other, those that have exited left out. They must come to the same instruction:
// that they meet at two instructions of the same form is not modelled (the run is then stuck, and says where).
#include <algorithm>
#include <bit>

#include "ptxsim/insn/families.h"
#include "ptxsim/insn/numeric.h"
#include "ptxsim/machine/presets.h"

namespace octet::ptxsim::insn {
namespace {

// Calls f(members) for each group of lanes that name the same membermask, once all its lanes are here.
template <class F>
Outcome for_each_group(Exec& x, const Insn& insn, const Arg& membermask, F f) {
  const uint32_t* masks = x.words(membermask);
  LaneMask left = x.lanes;
  while (left != 0) {
    const int lane = machine::first_lane(left);
    const LaneMask mask = masks[lane];
    if ((mask >> lane & 1) == 0) return x.fail(insn, "the lane is not in its own membermask", lane);
    if ((mask & x.warp.live & ~x.lanes) != 0) return Outcome::kBlocked;
    left &= ~mask;
    for (LaneMask m = mask & x.lanes; m != 0; m &= m - 1) {
      if (masks[machine::first_lane(m)] != mask)
        return x.fail(insn, "lanes of a membermask name another", machine::first_lane(m));
    }
  }
  for (left = x.lanes; left != 0;) {
    const LaneMask members = masks[machine::first_lane(left)] & x.lanes;
    f(members);
    left &= ~members;
  }
  return Outcome::kNext;
}

enum Mode { kUp, kDown, kBfly, kIdx };

// The lane that is read, and whether it is within the segment; else the lane reads itself (PTX ISA 9.7.9.6).
bool shuffle_source(int mode, int lane, uint32_t b, uint32_t c, int* source) {
  const int offset = int(b & 31), segment = int(c >> 8 & 31), clamp = int(c & 31);
  const int most = (lane & segment) | (clamp & ~segment & 31), least = lane & segment;
  int j = 0;
  bool within = false;
  switch (mode) {
    case kUp:
      j = lane - offset;
      within = j >= most;
      break;
    case kDown:
      j = lane + offset;
      within = j <= most;
      break;
    case kBfly:
      j = lane ^ offset;
      within = j <= most;
      break;
    default:
      j = least | (offset & ~segment & 31);
      within = j <= most;
  }
  *source = within ? j : lane;
  return within;
}

Outcome run_shfl(Exec& x, const Insn& insn) {
  const auto& args = insn.args;  // d, p, a, b, c, membermask
  return for_each_group(x, insn, args[5], [&](LaneMask members) {
    const uint32_t *a = x.words(args[2]), *b = x.words(args[3]), *c = x.words(args[4]);
    uint32_t value[machine::kLanes] = {};
    LaneMask within = 0;
    machine::for_each_lane(members, [&](int lane) {
      int source = 0;
      within |= LaneMask(shuffle_source(insn.mods[0], lane, b[lane], c[lane], &source)) << lane;
      // What a lane outside of the group has is undefined.
      value[lane] = (members >> source & 1) != 0 ? a[source] : machine::kRegisterPoison;
    });
    machine::for_each_lane(members, [&](int lane) { x.set(args[0].slot, 32, lane, value[lane]); });
    if (args[1].slot != machine::kNoSlot) {
      uint32_t& p = x.registers[args[1].slot];
      p = (p & ~members) | within;
    }
  });
}

void set_all(const Exec& x, const Arg& d, LaneMask members, uint64_t value) {
  if (d.bits == 1 && d.slot != machine::kNoSlot) {
    uint32_t& p = x.registers[d.slot];
    p = value != 0 ? p | members : p & ~members;
    return;
  }
  machine::for_each_lane(members, [&](int lane) { x.set(d.slot, d.bits, lane, value); });
}

enum Vote { kAll, kAny, kUni, kBallot };

Outcome run_vote(Exec& x, const Insn& insn) {
  return for_each_group(x, insn, insn.args[2], [&](LaneMask members) {
    const LaneMask yes = x.predicate(insn.args[1]) & members;
    switch (insn.mods[0]) {
      case kAll:
        return set_all(x, insn.args[0], members, yes == members);
      case kAny:
        return set_all(x, insn.args[0], members, yes != 0);
      case kUni:
        return set_all(x, insn.args[0], members, yes == members || yes == 0);
      default:
        return set_all(x, insn.args[0], members, yes);
    }
  });
}

Outcome run_match(Exec& x, const Insn& insn) {
  return for_each_group(x, insn, insn.args[3], [&](LaneMask members) {  // d, p, a, membermask
    LaneMask equal[machine::kLanes] = {};
    bool all = true;
    machine::for_each_lane(members, [&](int lane) {
      const uint64_t a = x.value(insn.args[2], lane);
      machine::for_each_lane(members, [&](int other) {
        if (x.value(insn.args[2], other) == a) equal[lane] |= LaneMask{1} << other;
      });
      all &= equal[lane] == members;
    });
    machine::for_each_lane(members, [&](int lane) {
      x.set(insn.args[0].slot, 32, lane, insn.mods[0] == 0 ? equal[lane] : all ? members : 0);
    });
    if (insn.mods[0] != 0) set_all(x, insn.args[1], members, all);
  });
}

enum Redux { kAdd, kMin, kMax, kAnd, kOr, kXor };

uint32_t reduce(int op, Type type, bool abs, bool nan, uint32_t a, uint32_t c) {
  switch (op) {
    case kAdd:
      return a + c;
    case kAnd:
      return a & c;
    case kOr:
      return a | c;
    case kXor:
      return a ^ c;
    default:
      break;
  }
  const bool wants_max = op == kMax;
  if (type == Type::kS32) return (int32_t(a) < int32_t(c)) == wants_max ? c : a;
  if (type == Type::kU32) return (a < c) == wants_max ? c : a;
  if (abs) a &= 0x7FFFFFFF, c &= 0x7FFFFFFF;
  const bool a_nan = std::isnan(f32(a)), c_nan = std::isnan(f32(c));
  if (a_nan || c_nan) return nan || (a_nan && c_nan) ? kNan32 : a_nan ? c : a;
  const bool a_less = f32(a) < f32(c) || (f32(a) == f32(c) && (a >> 31) > (c >> 31));
  return a_less == wants_max ? c : a;
}

Outcome run_redux(Exec& x, const Insn& insn) {
  return for_each_group(x, insn, insn.args[2], [&](LaneMask members) {
    const uint32_t* a = x.words(insn.args[1]);
    uint32_t value = a[machine::first_lane(members)];
    if (insn.mods[2] != 0) value &= 0x7FFFFFFF;
    machine::for_each_lane(members & (members - 1), [&](int lane) {
      value = reduce(insn.mods[0], Type(insn.mods[1]), insn.mods[2] != 0, insn.mods[3] != 0, value,
                     a[lane]);
    });
    set_all(x, insn.args[0], members, value);
  });
}

// Which lane is elected PTX leaves open, but that it is the same one for the same membermask: the seed draws it.
int elected_lane(const Exec& x, LaneMask members) {
  if (x.machine.settings().time == machine::Time::kEager) return machine::first_lane(members);
  machine::Random random(x.machine.settings().seed ^ members);
  auto skip = random.below(uint64_t(machine::num_lanes(members)));
  while (skip-- != 0) members &= members - 1;
  return machine::first_lane(members);
}

Outcome run_elect(Exec& x, const Insn& insn) {
  return for_each_group(x, insn, insn.args[2], [&](LaneMask members) {
    const int leader = elected_lane(x, members);
    set_all(x, insn.args[0], members, uint64_t(leader));
    set_all(x, insn.args[1], members, 0);
    set_all(x, insn.args[1], LaneMask{1} << leader, 1);
  });
}

// d|p, where p may be left out.
Status bind_pair(Binder& b, bool wants_predicate) {
  const text::Operand& d = b.operand(0);
  if (d.kind == text::Operand::Kind::kPair) {
    OCTET_RETURN_IF_ERROR(b.result(d.parts[0], Type::kB32));
    return b.predicate_result(d.parts[1]);
  }
  if (wants_predicate) return b.refuse(d, "want a pair: d|p");
  OCTET_RETURN_IF_ERROR(b.result(d, Type::kB32));
  return b.sink(Type::kPred);
}

}  // namespace

Status bind_shfl(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.expect("sync"));
  OCTET_ASSIGN_OR_RETURN(const int mode, b.expect_one_of({"up", "down", "bfly", "idx"}));
  OCTET_RETURN_IF_ERROR(b.expect("b32"));
  OCTET_RETURN_IF_ERROR(b.done(5));
  OCTET_RETURN_IF_ERROR(bind_pair(b, false));
  for (size_t i = 1; i < 5; ++i) OCTET_RETURN_IF_ERROR(b.source(i, Type::kB32));
  b.insn().mods[0] = mode;
  b.insn().run = run_shfl;
  return {};
}

Status bind_vote(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.expect("sync"));
  OCTET_ASSIGN_OR_RETURN(const int mode, b.expect_one_of({"all", "any", "uni", "ballot"}));
  OCTET_RETURN_IF_ERROR(b.expect(mode == kBallot ? "b32" : "pred"));
  OCTET_RETURN_IF_ERROR(b.done(3));
  OCTET_RETURN_IF_ERROR(mode == kBallot ? b.result(0, Type::kB32) : b.predicate_result(0));
  OCTET_RETURN_IF_ERROR(b.predicate_source(1));
  OCTET_RETURN_IF_ERROR(b.source(2, Type::kB32));
  b.insn().mods[0] = mode;
  b.insn().run = run_vote;
  return {};
}

Status bind_match(Binder& b) {
  OCTET_ASSIGN_OR_RETURN(const int all, b.expect_one_of({"any", "all"}));
  OCTET_RETURN_IF_ERROR(b.expect("sync"));
  OCTET_ASSIGN_OR_RETURN(const Type type, b.take_type({Type::kB32, Type::kB64}));
  OCTET_RETURN_IF_ERROR(b.done(3));
  OCTET_RETURN_IF_ERROR(bind_pair(b, false));
  OCTET_RETURN_IF_ERROR(b.source(1, type));
  OCTET_RETURN_IF_ERROR(b.source(2, Type::kB32));
  b.insn().mods[0] = all;
  b.insn().run = run_match;
  return {};
}

Status bind_redux(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.expect("sync"));
  OCTET_ASSIGN_OR_RETURN(const int op, b.expect_one_of({"add", "min", "max", "and", "or", "xor"}));
  const bool abs = b.take("abs"), nan = b.take("NaN");
  OCTET_ASSIGN_OR_RETURN(const Type type,
                         b.take_type({Type::kU32, Type::kS32, Type::kB32, Type::kF32}));
  const bool is_bitwise = op >= kAnd, is_extreme = op == kMin || op == kMax;
  if (is_bitwise != (type == Type::kB32) || (type == Type::kF32 && !is_extreme) ||
      ((abs || nan) && type != Type::kF32)) {
    return b.refuse("the operation has no such type");
  }
  OCTET_RETURN_IF_ERROR(b.done(3));
  OCTET_RETURN_IF_ERROR(b.result(0, type));
  OCTET_RETURN_IF_ERROR(b.source(1, type));
  OCTET_RETURN_IF_ERROR(b.source(2, Type::kB32));
  b.insn().mods = {op, int(type), abs, nan};
  b.insn().run = run_redux;
  return {};
}

Status bind_activemask(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.expect("b32"));
  OCTET_RETURN_IF_ERROR(b.done(1));
  OCTET_RETURN_IF_ERROR(b.result(0, Type::kB32));
  b.insn().run = +[](Exec& x, const Insn& insn) {
    set_all(x, insn.args[0], x.lanes, x.lanes);
    return Outcome::kNext;
  };
  return {};
}

Status bind_elect(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.expect("sync"));
  OCTET_RETURN_IF_ERROR(b.done(2));
  OCTET_RETURN_IF_ERROR(bind_pair(b, true));
  OCTET_RETURN_IF_ERROR(b.source(1, Type::kB32));
  b.insn().run = run_elect;
  return {};
}

Status bind_bar_warp(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.expect("sync"));
  OCTET_RETURN_IF_ERROR(b.done(1));
  OCTET_RETURN_IF_ERROR(b.source(0, Type::kB32));
  b.insn().run = +[](Exec& x, const Insn& insn) {
    return for_each_group(x, insn, insn.args[0], [](LaneMask) {});
  };
  return {};
}

}  // namespace octet::ptxsim::insn
