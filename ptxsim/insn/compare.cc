// SPDX-License-Identifier: Apache-2.0
// setp and selp, PTX ISA 9.7.6, 9.7.7. slct is not modelled.
#include <cmath>

#include "ptxsim/insn/elementwise.h"
#include "ptxsim/insn/families.h"
#include "ptxsim/insn/numeric.h"

namespace octet::ptxsim::insn {
namespace {

enum Comparison { kEq, kNe, kLt, kLe, kGt, kGe, kEqu, kNeu, kLtu, kLeu, kGtu, kGeu, kNum, kNan };

template <int kComparison, class T>
bool holds(T a, T c) {
  if constexpr (std::is_floating_point_v<T>) {
    const bool unordered = a != a || c != c;
    if constexpr (kComparison == kNum) return !unordered;
    if constexpr (kComparison == kNan) return unordered;
    if (unordered) return kComparison >= kEqu;
  }
  switch (kComparison) {
    case kEq:
    case kEqu:
      return a == c;
    case kNe:
    case kNeu:
      return a != c;
    case kLt:
    case kLtu:
      return a < c;
    case kLe:
    case kLeu:
      return a <= c;
    case kGt:
    case kGtu:
      return a > c;
    default:
      return a >= c;
  }
}

template <class T, bool kFtz>
T value_of(Lane<T> bits) {
  if constexpr (std::is_same_v<T, float>) return f32(kFtz ? flush(bits) : bits);
  if constexpr (std::is_same_v<T, double>) return f64(bits);
  return T(bits);
}

// How the comparison meets a third operand: setp.lt.and p, a, b, c.
enum Combine { kAlone, kAnd, kOr, kXor };

template <class T, int kComparison, bool kFtz>
Outcome run_setp(Exec& x, const Insn& insn) {
  const Lane<T>* a = lanes_of<T>(x, insn.args[2]);
  const Lane<T>* c = lanes_of<T>(x, insn.args[3]);
  LaneMask result = 0;
  for (int lane = 0; lane < machine::kLanes; ++lane) {
    result |= LaneMask(holds<kComparison>(value_of<T, kFtz>(a[lane]), value_of<T, kFtz>(c[lane])))
              << lane;
  }
  LaneMask other = ~result;
  if (insn.mods[0] != kAlone) {
    const LaneMask third = x.predicate(insn.args[4]);
    const auto combine = [&](LaneMask p) {
      return insn.mods[0] == kAnd ? p & third : insn.mods[0] == kOr ? p | third : p ^ third;
    };
    result = combine(result);
    other = combine(other);
  }
  x.set_predicate(insn.args[0].slot, result);
  x.set_predicate(insn.args[1].slot, other);
  return Outcome::kNext;
}

template <class T, bool kFtz, int... kIndex>
machine::Run run_of(int comparison, std::integer_sequence<int, kIndex...>) {
  constexpr machine::Run table[] = {run_setp<T, kIndex, kFtz>...};
  return table[comparison];
}
template <class T, bool kFtz = false>
machine::Run run_of(int comparison) {
  return run_of<T, kFtz>(comparison, std::make_integer_sequence < int,
                         std::is_floating_point_v<T> ? kNan + 1 : kGe + 1 > ());
}

machine::Run run_of(Type type, int comparison, bool ftz) {
  switch (type) {
    case Type::kB16:
    case Type::kU16:
      return run_of<uint16_t>(comparison);
    case Type::kS16:
      return run_of<int16_t>(comparison);
    case Type::kB32:
    case Type::kU32:
      return run_of<uint32_t>(comparison);
    case Type::kS32:
      return run_of<int32_t>(comparison);
    case Type::kB64:
    case Type::kU64:
      return run_of<uint64_t>(comparison);
    case Type::kS64:
      return run_of<int64_t>(comparison);
    case Type::kF32:
      return ftz ? run_of<float, true>(comparison) : run_of<float>(comparison);
    default:
      return run_of<double>(comparison);
  }
}

constexpr std::initializer_list<Type> kTypes = {Type::kB16, Type::kB32, Type::kB64, Type::kU16,
                                                Type::kU32, Type::kU64, Type::kS16, Type::kS32,
                                                Type::kS64, Type::kF32, Type::kF64};

// lo ls hi hs: lt le gt ge of unsigned types.
Result<int> take_comparison(Binder& b) {
  const int index = b.take_one_of(
      {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"});
  if (index >= 0) return index;
  OCTET_ASSIGN_OR_RETURN(const int unsigned_index, b.expect_one_of({"lo", "ls", "hi", "hs"}));
  return kLt + unsigned_index;
}

}  // namespace

Status bind_setp(Binder& b) {
  OCTET_ASSIGN_OR_RETURN(const int comparison, take_comparison(b));
  const int combine = b.take_one_of({"and", "or", "xor"}) + 1;
  const bool ftz = b.take("ftz");
  OCTET_ASSIGN_OR_RETURN(const Type type, b.take_type(kTypes));
  if (!is_float(type) && comparison > kGe) return b.refuse("the comparison is one of floats");
  OCTET_RETURN_IF_ERROR(b.done(combine == kAlone ? 3 : 4));
  const text::Operand& d = b.operand(0);
  if (d.kind == text::Operand::Kind::kPair) {
    OCTET_RETURN_IF_ERROR(b.predicate_result(d.parts[0]));
    OCTET_RETURN_IF_ERROR(b.predicate_result(d.parts[1]));
  } else {
    OCTET_RETURN_IF_ERROR(b.predicate_result(d));
    OCTET_RETURN_IF_ERROR(b.sink(Type::kPred));
  }
  OCTET_RETURN_IF_ERROR(b.source(1, type));
  OCTET_RETURN_IF_ERROR(b.source(2, type));
  if (combine != kAlone) OCTET_RETURN_IF_ERROR(b.predicate_source(3));
  b.insn().mods[0] = combine;
  b.insn().run = run_of(type, comparison, ftz);
  return {};
}

namespace {

template <class L>
Outcome run_selp(Exec& x, const Insn& insn) {
  if (insn.args[0].slot == machine::kNoSlot) return Outcome::kNext;
  const LaneMask p = x.predicate(insn.args[3]);
  L* d = lanes_of<L>(x, insn.args[0]);
  const L* a = lanes_of<L>(x, insn.args[1]);
  const L* c = lanes_of<L>(x, insn.args[2]);
  over_lanes(x.lanes, [=](int lane) { d[lane] = (p >> lane & 1) != 0 ? a[lane] : c[lane]; });
  return Outcome::kNext;
}

}  // namespace

Status bind_selp(Binder& b) {
  OCTET_ASSIGN_OR_RETURN(const Type type, b.take_type(kTypes));
  OCTET_RETURN_IF_ERROR(b.done(4));
  OCTET_RETURN_IF_ERROR(b.result(0, type));
  OCTET_RETURN_IF_ERROR(b.source(1, type));
  OCTET_RETURN_IF_ERROR(b.source(2, type));
  OCTET_RETURN_IF_ERROR(b.predicate_source(3));
  b.insn().run = text::type_bits(type) == 64 ? run_selp<uint64_t> : run_selp<uint32_t>;
  return {};
}

}  // namespace octet::ptxsim::insn
