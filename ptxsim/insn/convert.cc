// SPDX-License-Identifier: Apache-2.0
// cvt between integers and floats of 16 bits and more, PTX ISA 9.7.9.21. The packed forms are convert_packed.cc's.
//
// A source register may be wider than its type, and a result's, too: the result is then extended by its type's sign.
// Modelled: .rn .rz .rm .rp for floats, .rni .rzi .rmi .rpi, .ftz, .sat. Floats to integers clamp.
#include "ptxsim/insn/convert.h"

#include <algorithm>
#include <cmath>

#include "ptxsim/insn/elementwise.h"
#include "ptxsim/insn/families.h"
#include "ptxsim/insn/numeric.h"

namespace octet::ptxsim::insn {
namespace {

// bf16 is no type of a declaration: here it is a kind of its own.
enum class Kind { kUnsigned, kSigned, kF16, kBf16, kF32, kF64 };
struct Side {
  Kind kind = Kind::kUnsigned;
  int bits = 32;
  Type type = Type::kU32;  // of the register: .b16 for bf16
  bool is_integer() const { return kind == Kind::kUnsigned || kind == Kind::kSigned; }
};

Result<Side> take_side(Binder& b) {
  if (b.take("bf16")) return Side{Kind::kBf16, 16, Type::kB16};
  OCTET_ASSIGN_OR_RETURN(const Type type, b.take_type());
  const int bits = text::type_bits(type);
  if (type == Type::kF16) return Side{Kind::kF16, bits, Type::kB16};
  if (type == Type::kF32) return Side{Kind::kF32, bits, type};
  if (type == Type::kF64) return Side{Kind::kF64, bits, type};
  if (is_signed(type)) return Side{Kind::kSigned, bits, type};
  if (type == Type::kU8 || type == Type::kU16 || type == Type::kU32 || type == Type::kU64)
    return Side{Kind::kUnsigned, bits, type};
  return b.refuse("want an integer's or a float's type");
}

int64_t sign_extended(uint64_t value, int bits) {
  return bits == 64 ? int64_t(value) : int64_t(value << (64 - bits)) >> (64 - bits);
}
uint64_t low_bits(uint64_t value, int bits) {
  return bits == 64 ? value : value & ((uint64_t{1} << bits) - 1);
}

double as_double(Kind kind, uint64_t value) {
  switch (kind) {
    case Kind::kF16:
      return decode_float(kF16, uint32_t(value & 0xFFFF));
    case Kind::kBf16:
      return double(f32_of_bf16(uint32_t(value & 0xFFFF)));
    case Kind::kF32:
      return double(f32(uint32_t(value)));
    default:
      return f64(value);
  }
}

double rounded_integer(double value, Rounding rounding) {
  switch (rounding) {
    case Rounding::kZero:
      return std::trunc(value);
    case Rounding::kDown:
      return std::floor(value);
    case Rounding::kUp:
      return std::ceil(value);
    default:
      return std::nearbyint(value);
  }
}

// f32 of a binary64 by any rounding.
uint32_t to_f32(double value, Rounding rounding) {
  const auto near = float(value);
  if (rounding == Rounding::kNearest || double(near) == value || std::isnan(near))
    return bits32(near);
  const bool above = double(near) > value;
  const bool wants_above = rounding == Rounding::kUp || (rounding == Rounding::kZero && value < 0);
  if (above == wants_above) return bits32(near);
  return bits32(std::nextafter(near, above ? -std::numeric_limits<float>::infinity()
                                           : std::numeric_limits<float>::infinity()));
}

uint64_t encode(Kind kind, double value, Rounding rounding) {
  switch (kind) {
    case Kind::kF16:
      return encode_float(kF16, value, rounding, false);
    case Kind::kBf16:
      return encode_float(kBf16, value, rounding, false);
    case Kind::kF32:
      return to_f32(value, rounding);
    default:
      return bits64(value);
  }
}

// A float as an integer of so many bits, clamped. NaN: 0; from f64 or to 64 bits the upper bit alone.
uint64_t clamped(double value, Kind kind, int bits, bool is_of_f64) {
  if (std::isnan(value)) return is_of_f64 || bits == 64 ? uint64_t{1} << (bits - 1) : 0;
  const double least = kind == Kind::kSigned ? -std::ldexp(1.0, bits - 1) : 0;
  const double beyond = std::ldexp(1.0, kind == Kind::kSigned ? bits - 1 : bits);
  if (value <= least) return kind == Kind::kSigned ? low_bits(uint64_t{1} << (bits - 1), bits) : 0;
  if (value >= beyond)
    return kind == Kind::kSigned ? (uint64_t{1} << (bits - 1)) - 1 : low_bits(~uint64_t{0}, bits);
  return low_bits(kind == Kind::kSigned ? uint64_t(int64_t(value)) : uint64_t(value), bits);
}

uint64_t saturated_integer(uint64_t value, const Side& from, const Side& to) {
  const bool negative = from.kind == Kind::kSigned && int64_t(value) < 0;
  const int magnitude_bits = to.kind == Kind::kSigned ? to.bits - 1 : to.bits;
  const uint64_t most = magnitude_bits == 64 ? ~uint64_t{0} : (uint64_t{1} << magnitude_bits) - 1;
  if (!negative) return std::min(value, most);
  if (to.kind == Kind::kUnsigned) return 0;
  return uint64_t(std::max(int64_t(value), -int64_t(most) - 1));
}

// A NaN of f64 keeps its sign and what there is room for of its fraction, and is quiet; so it is on an H200.
uint64_t nan_of_f64(uint64_t bits, Kind to) {
  if (to == Kind::kF64) return bits | kQuiet64;
  if (to != Kind::kF32) return encode(to, f64(bits), Rounding::kNearest);
  return (bits >> 32 & 0x80000000) | 0x7FC00000 | (bits >> 29 & 0x3FFFFF);
}

enum Mod { kFromKind, kFromBits, kToKind, kToBits, kRounding, kFlags };
enum Flag { kFtz = 1, kSat = 2, kToInteger = 4 };

uint64_t convert(const Insn& insn, uint64_t value) {
  const Side from{Kind(insn.mods[kFromKind]), insn.mods[kFromBits], {}},
      to{Kind(insn.mods[kToKind]), insn.mods[kToBits], {}};
  const auto rounding = Rounding(insn.mods[kRounding]);
  const int flags = insn.mods[kFlags];
  if (from.is_integer()) {
    const uint64_t wide = from.kind == Kind::kSigned ? uint64_t(sign_extended(value, from.bits))
                                                     : low_bits(value, from.bits);
    if (to.is_integer()) return (flags & kSat) != 0 ? saturated_integer(wide, from, to) : wide;
    // 64-bit integers through long double: no second rounding.
    if (to.kind == Kind::kF32)
      return bits32(from.kind == Kind::kSigned ? float(int64_t(wide)) : float(wide));
    const double exact = from.kind == Kind::kSigned ? double(int64_t(wide)) : double(wide);
    return encode(to.kind, exact, rounding);
  }
  if ((flags & kFtz) != 0 && from.kind == Kind::kF32) value = flush(uint32_t(value));
  double exact = as_double(from.kind, value);
  if (to.is_integer())
    return clamped(rounded_integer(exact, rounding), to.kind, to.bits, from.kind == Kind::kF64);
  if (std::isnan(exact) && (flags & kSat) == 0) {
    if (from.kind == Kind::kF64) return nan_of_f64(value, to.kind);
    if (from.kind == Kind::kBf16 && to.kind == Kind::kF32) return value << 16;
  }
  if ((flags & kToInteger) != 0) exact = rounded_integer(exact, rounding);
  if ((flags & kSat) != 0) exact = exact > 0 ? std::min(exact, 1.0) : 0;
  const uint64_t result = encode(to.kind, exact, rounding);
  return (flags & kFtz) != 0 && to.kind == Kind::kF32 ? flush(uint32_t(result)) : result;
}

Outcome run_convert(Exec& x, const Insn& insn) {
  const Arg& d = insn.args[0];
  const bool extends = Kind(insn.mods[kToKind]) == Kind::kSigned;
  machine::for_each_lane(x.lanes, [&](int lane) {
    const uint64_t result = convert(insn, x.value(insn.args[1], lane));
    const int bits = insn.mods[kToBits];
    x.set(
        d.slot, d.bits, lane,
        low_bits(extends ? uint64_t(sign_extended(result, bits)) : low_bits(result, bits), d.bits));
  });
  return Outcome::kNext;
}

// What addresses and indices are made with.
machine::Run fast_run(const Side& to, const Side& from, const Insn& insn) {
  if (!to.is_integer() || !from.is_integer() || insn.mods[kFlags] != 0) return nullptr;
  const int d = insn.args[0].bits, a = insn.args[1].bits;
  if (to.bits == 64 && from.bits == 32 && a == 32) {
    return from.kind == Kind::kSigned
               ? unary<uint64_t, int32_t>([](int32_t v) { return uint64_t(int64_t{v}); })
               : unary<uint64_t, uint32_t>([](uint32_t v) { return uint64_t{v}; });
  }
  if (to.bits == 32 && d == 32 && from.bits == 64)
    return unary<uint32_t, uint64_t>([](uint64_t v) { return uint32_t(v); });
  if (to.bits == 16 && d == 16 && a == 32 && from.bits == 32)
    return unary<uint32_t>([](uint32_t v) { return v & 0xFFFF; });
  if (to.bits == 32 && d == 32 && a == 16 && from.bits == 16 && from.kind == Kind::kUnsigned)
    return unary<uint32_t>([](uint32_t v) { return v; });
  return nullptr;
}

}  // namespace

Status bind_cvt(Binder& b) {
  if (is_packed_conversion(b)) return bind_packed_conversion(b);
  Insn& insn = b.insn();
  int flags = 0;
  const int to_integer = b.take_one_of({"rni", "rzi", "rmi", "rpi"});
  const int rounding = to_integer >= 0 ? to_integer : b.take_one_of({"rn", "rz", "rm", "rp"});
  if (to_integer >= 0) flags |= kToInteger;
  if (b.take("ftz")) flags |= kFtz;
  if (b.take("sat")) flags |= kSat;
  OCTET_ASSIGN_OR_RETURN(const Side to, take_side(b));
  OCTET_ASSIGN_OR_RETURN(const Side from, take_side(b));
  if (to.is_integer() && !from.is_integer() && to_integer < 0)
    return b.refuse("want .rni, .rzi, .rmi or .rpi");
  if (!to.is_integer() && from.is_integer() && rounding != 0)
    return b.unmodelled("want .rn of an integer");
  OCTET_RETURN_IF_ERROR(b.done(2));
  OCTET_RETURN_IF_ERROR(to.is_integer() ? b.wide_result(b.operand(0), to.type)
                                        : b.result(0, to.type));
  OCTET_RETURN_IF_ERROR(from.is_integer() ? b.wide_source(b.operand(1), from.type)
                                          : b.source(1, from.type));
  insn.mods = {
      int(from.kind), from.bits, int(to.kind), to.bits, int(Rounding(std::max(rounding, 0))),
      flags};
  insn.run = fast_run(to, from, insn);
  if (insn.run == nullptr || insn.args[0].slot == machine::kNoSlot) insn.run = run_convert;
  return {};
}

}  // namespace octet::ptxsim::insn
