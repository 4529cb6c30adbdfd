// SPDX-License-Identifier: Apache-2.0
// Logic, shifts and bits. PTX ISA 9.7.1 (bfe, bfi, brev, clz, popc), 9.7.8 (logic, shifts), 9.7.9.7 (prmt).
#include <bit>

#include "ptxsim/insn/elementwise.h"
#include "ptxsim/insn/families.h"

namespace octet::ptxsim::insn {
namespace {

// and, or, xor of predicates: the whole mask at once.
template <class F>
machine::Run of_predicates(F) {
  return +[](Exec& x, const Insn& insn) {
    x.set_predicate(insn.args[0].slot, F{}(x.predicate(insn.args[1]), x.predicate(insn.args[2])));
    return Outcome::kNext;
  };
}

template <class F>
Status bind_logic(Binder& b, F f) {
  OCTET_ASSIGN_OR_RETURN(const Type type,
                         b.take_type({Type::kPred, Type::kB16, Type::kB32, Type::kB64}));
  OCTET_RETURN_IF_ERROR(b.done(3));
  OCTET_RETURN_IF_ERROR(b.result(0, type));
  for (size_t i = 1; i < 3; ++i) {
    OCTET_RETURN_IF_ERROR(type == Type::kPred ? b.predicate_source(i) : b.source(i, type));
  }
  b.insn().run = type == Type::kPred  ? of_predicates(f)
                 : type == Type::kB64 ? binary<uint64_t>(f)
                                      : binary<uint32_t>(f);
  return {};
}

// One result of the type, one source of it.
template <class F16, class F32, class F64>
Status bind_of_bits(Binder& b, F16 f16, F32 f32, F64 f64) {
  OCTET_ASSIGN_OR_RETURN(const Type type, b.take_type({Type::kB16, Type::kB32, Type::kB64}));
  OCTET_RETURN_IF_ERROR(b.done(2));
  OCTET_RETURN_IF_ERROR(b.result(0, type));
  OCTET_RETURN_IF_ERROR(b.source(1, type));
  b.insn().run = type == Type::kB16   ? unary<uint16_t>(f16)
                 : type == Type::kB32 ? unary<uint32_t>(f32)
                                      : unary<uint64_t>(f64);
  return {};
}

// A count of 32 bits of a source of 32 or 64.
template <class F32, class F64>
Status bind_count(Binder& b, F32 f32, F64 f64) {
  OCTET_ASSIGN_OR_RETURN(const Type type, b.take_type({Type::kB32, Type::kB64}));
  OCTET_RETURN_IF_ERROR(b.done(2));
  OCTET_RETURN_IF_ERROR(b.result(0, Type::kU32));
  OCTET_RETURN_IF_ERROR(b.source(1, type));
  b.insn().run = type == Type::kB32 ? unary<uint32_t>(f32) : unary<uint32_t, uint64_t>(f64);
  return {};
}

}  // namespace

Status bind_and(Binder& b) {
  return bind_logic(b, [](auto a, auto c) { return a & c; });
}
Status bind_or(Binder& b) {
  return bind_logic(b, [](auto a, auto c) { return a | c; });
}
Status bind_xor(Binder& b) {
  return bind_logic(b, [](auto a, auto c) { return a ^ c; });
}

Status bind_not(Binder& b) {
  if (b.take("pred")) {
    OCTET_RETURN_IF_ERROR(b.done(2));
    OCTET_RETURN_IF_ERROR(b.predicate_result(0));
    OCTET_RETURN_IF_ERROR(b.predicate_source(1));
    b.insn().run = +[](Exec& x, const Insn& insn) {
      x.set_predicate(insn.args[0].slot, ~x.predicate(insn.args[1]));
      return Outcome::kNext;
    };
    return {};
  }
  return bind_of_bits(
      b, [](uint16_t a) { return uint16_t(~a); }, [](uint32_t a) { return ~a; },
      [](uint64_t a) { return ~a; });
}

Status bind_cnot(Binder& b) {
  return bind_of_bits(
      b, [](uint16_t a) { return uint16_t(a == 0); }, [](uint32_t a) { return uint32_t(a == 0); },
      [](uint64_t a) { return uint64_t(a == 0); });
}

// Shift amounts are 32 bits whatever the type, and beyond the width they count as the width (PTX ISA 9.7.8.7, 9.7.8.8).
Status bind_shl(Binder& b) {
  OCTET_ASSIGN_OR_RETURN(const Type type, b.take_type({Type::kB16, Type::kB32, Type::kB64}));
  OCTET_RETURN_IF_ERROR(b.done(3));
  OCTET_RETURN_IF_ERROR(b.result(0, type));
  OCTET_RETURN_IF_ERROR(b.source(1, type));
  OCTET_RETURN_IF_ERROR(b.source(2, Type::kU32));
  b.insn().run = type == Type::kB16
                     ? binary<uint16_t, uint16_t, uint32_t>(
                           [](uint16_t a, uint32_t n) { return uint16_t(n > 15 ? 0 : a << n); })
                 : type == Type::kB32
                     ? binary<uint32_t>([](uint32_t a, uint32_t n) { return n > 31 ? 0 : a << n; })
                     : binary<uint64_t, uint64_t, uint32_t>(
                           [](uint64_t a, uint32_t n) { return n > 63 ? 0 : a << n; });
  return {};
}

Status bind_shr(Binder& b) {
  OCTET_ASSIGN_OR_RETURN(const Type type,
                         b.take_type({Type::kB16, Type::kB32, Type::kB64, Type::kU16, Type::kU32,
                                      Type::kU64, Type::kS16, Type::kS32, Type::kS64}));
  OCTET_RETURN_IF_ERROR(b.done(3));
  OCTET_RETURN_IF_ERROR(b.result(0, type));
  OCTET_RETURN_IF_ERROR(b.source(1, type));
  OCTET_RETURN_IF_ERROR(b.source(2, Type::kU32));
  switch (type) {
    case Type::kS16:
      b.insn().run = binary<uint16_t, int16_t, uint32_t>(
          [](int16_t a, uint32_t n) { return uint16_t(a >> (n > 15 ? 15 : n)); });
      break;
    case Type::kS32:
      b.insn().run = binary<uint32_t, int32_t, uint32_t>(
          [](int32_t a, uint32_t n) { return uint32_t(a >> (n > 31 ? 31 : n)); });
      break;
    case Type::kS64:
      b.insn().run = binary<uint64_t, int64_t, uint32_t>(
          [](int64_t a, uint32_t n) { return uint64_t(a >> (n > 63 ? 63 : n)); });
      break;
    case Type::kB16:
    case Type::kU16:
      b.insn().run = binary<uint16_t, uint16_t, uint32_t>(
          [](uint16_t a, uint32_t n) { return uint16_t(n > 15 ? 0 : a >> n); });
      break;
    case Type::kB32:
    case Type::kU32:
      b.insn().run = binary<uint32_t>([](uint32_t a, uint32_t n) { return n > 31 ? 0 : a >> n; });
      break;
    default:
      b.insn().run = binary<uint64_t, uint64_t, uint32_t>(
          [](uint64_t a, uint32_t n) { return n > 63 ? 0 : a >> n; });
  }
  return {};
}

// 64 bits of b:a shifted; the upper word for .l, the lower for .r (PTX ISA 9.7.8.6).
Status bind_shf(Binder& b) {
  OCTET_ASSIGN_OR_RETURN(const int right, b.expect_one_of({"l", "r"}));
  OCTET_ASSIGN_OR_RETURN(const int wrap, b.expect_one_of({"clamp", "wrap"}));
  OCTET_RETURN_IF_ERROR(b.expect("b32"));
  OCTET_RETURN_IF_ERROR(b.done(4));
  OCTET_RETURN_IF_ERROR(b.result(0, Type::kB32));
  for (size_t i = 1; i < 4; ++i)
    OCTET_RETURN_IF_ERROR(b.source(i, i == 3 ? Type::kU32 : Type::kB32));
  const auto left_by = [](uint32_t lo, uint32_t hi, uint32_t n) {
    return uint32_t(((uint64_t{hi} << 32 | lo) << n) >> 32);
  };
  const auto right_by = [](uint32_t lo, uint32_t hi, uint32_t n) {
    return uint32_t((uint64_t{hi} << 32 | lo) >> n);
  };
  using Left = decltype(left_by);
  using Right = decltype(right_by);
  b.insn().run = right != 0
                     ? (wrap != 0 ? ternary<uint32_t>([](uint32_t a, uint32_t c, uint32_t n) {
                         return Right{}(a, c, n & 31);
                       })
                                  : ternary<uint32_t>([](uint32_t a, uint32_t c, uint32_t n) {
                                      return Right{}(a, c, n > 32 ? 32 : n);
                                    }))
                     : (wrap != 0 ? ternary<uint32_t>([](uint32_t a, uint32_t c, uint32_t n) {
                         return Left{}(a, c, n & 31);
                       })
                                  : ternary<uint32_t>([](uint32_t a, uint32_t c, uint32_t n) {
                                      return Left{}(a, c, n > 32 ? 32 : n);
                                    }));
  return {};
}

// Bit i of the result is bit (a_i b_i c_i) of the table, a the highest (PTX ISA 9.7.8.6).
Status bind_lop3(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.expect("b32"));
  OCTET_RETURN_IF_ERROR(b.done(5));
  OCTET_RETURN_IF_ERROR(b.result(0, Type::kB32));
  for (size_t i = 1; i < 4; ++i) OCTET_RETURN_IF_ERROR(b.source(i, Type::kB32));
  OCTET_ASSIGN_OR_RETURN(const int64_t table, b.number(4));
  if (table < 0 || table > 255) return b.refuse(b.operand(4), "want a table of 8 bits");
  b.insn().mods[0] = int32_t(table);
  b.insn().run = +[](Exec& x, const Insn& insn) {
    if (insn.args[0].slot == machine::kNoSlot) return Outcome::kNext;
    uint32_t term[8];
    for (int i = 0; i < 8; ++i) term[i] = (insn.mods[0] >> i & 1) != 0 ? ~0u : 0;
    uint32_t* d = x.words(insn.args[0]);
    const uint32_t *a = x.words(insn.args[1]), *c = x.words(insn.args[2]),
                   *e = x.words(insn.args[3]);
    over_lanes(x.lanes, [=, &term](int l) {
      d[l] = (a[l] & ((c[l] & ((e[l] & term[7]) | (~e[l] & term[6]))) |
                      (~c[l] & ((e[l] & term[5]) | (~e[l] & term[4]))))) |
             (~a[l] & ((c[l] & ((e[l] & term[3]) | (~e[l] & term[2]))) |
                       (~c[l] & ((e[l] & term[1]) | (~e[l] & term[0])))));
    });
    return Outcome::kNext;
  };
  return {};
}

namespace {

// Four bytes of the eight of b:a; bit 3 of a selector copies the byte's sign.
uint32_t permuted(uint32_t a, uint32_t c, uint32_t selectors) {
  const uint64_t bytes = uint64_t{c} << 32 | a;
  uint32_t d = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t selector = selectors >> (4 * i);
    const auto byte = uint8_t(bytes >> (8 * (selector & 7)));
    d |= uint32_t((selector & 8) != 0 ? (byte & 0x80 ? 0xFF : 0) : byte) << (8 * i);
  }
  return d;
}

// Selectors of the modes, for the two low bits of the third operand (PTX ISA 9.7.9.7, the table).
constexpr uint32_t kForward[] = {0x3210, 0x4321, 0x5432, 0x6543};
constexpr uint32_t kBackward[] = {0x5670, 0x6701, 0x7012, 0x0123};
constexpr uint32_t kReplicate8[] = {0x0000, 0x1111, 0x2222, 0x3333};
constexpr uint32_t kClampLeft[] = {0x3210, 0x3211, 0x3222, 0x3333};
constexpr uint32_t kClampRight[] = {0x0000, 0x1110, 0x2210, 0x3210};
constexpr uint32_t kReplicate16[] = {0x1010, 0x3232, 0x1010, 0x3232};

template <const uint32_t (&kSelectors)[4]>
machine::Run permuted_by() {
  return ternary<uint32_t>(
      [](uint32_t a, uint32_t c, uint32_t n) { return permuted(a, c, kSelectors[n & 3]); });
}

}  // namespace

Status bind_prmt(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.expect("b32"));
  const int mode = b.take_one_of({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
  OCTET_RETURN_IF_ERROR(b.done(4));
  OCTET_RETURN_IF_ERROR(b.result(0, Type::kB32));
  for (size_t i = 1; i < 4; ++i) OCTET_RETURN_IF_ERROR(b.source(i, Type::kB32));
  const machine::Run modes[] = {permuted_by<kForward>(),    permuted_by<kBackward>(),
                                permuted_by<kReplicate8>(), permuted_by<kClampLeft>(),
                                permuted_by<kClampRight>(), permuted_by<kReplicate16>()};
  const auto by_selectors = [](uint32_t a, uint32_t c, uint32_t n) { return permuted(a, c, n); };
  b.insn().run = mode < 0 ? ternary<uint32_t>(by_selectors) : modes[mode];
  return {};
}

namespace {

// Position and length are their low 8 bits; bits beyond the source are its sign, or 0 (PTX ISA 9.7.1.20).
template <int kWidth>
uint64_t extract(uint64_t a, uint32_t at, uint32_t length, bool sign_extends) {
  const uint32_t pos = at & 0xFF, len = length & 0xFF;
  if (len == 0) return 0;
  const uint32_t sign_at = pos + len - 1 < kWidth ? pos + len - 1 : kWidth - 1;
  const uint64_t sign = sign_extends ? a >> sign_at & 1 : 0;
  uint64_t d = 0;
  for (uint32_t i = 0; i < kWidth; ++i)
    d |= (i < len && pos + i < kWidth ? a >> (pos + i) & 1 : sign) << i;
  return d;
}

template <int kWidth>
uint64_t insert(uint64_t from, uint64_t into, uint32_t at, uint32_t length) {
  const uint32_t pos = at & 0xFF, len = length & 0xFF;
  for (uint32_t i = 0; i < len && pos + i < kWidth; ++i) {
    into = (into & ~(uint64_t{1} << (pos + i))) | (from >> i & 1) << (pos + i);
  }
  return into;
}

}  // namespace

Status bind_bfe(Binder& b) {
  OCTET_ASSIGN_OR_RETURN(const Type type,
                         b.take_type({Type::kU32, Type::kU64, Type::kS32, Type::kS64}));
  OCTET_RETURN_IF_ERROR(b.done(4));
  OCTET_RETURN_IF_ERROR(b.result(0, type));
  OCTET_RETURN_IF_ERROR(b.source(1, type));
  OCTET_RETURN_IF_ERROR(b.source(2, Type::kU32));
  OCTET_RETURN_IF_ERROR(b.source(3, Type::kU32));
  switch (type) {
    case Type::kU32:
      b.insn().run = ternary<uint32_t>(
          [](uint32_t a, uint32_t p, uint32_t n) { return uint32_t(extract<32>(a, p, n, false)); });
      break;
    case Type::kS32:
      b.insn().run = ternary<uint32_t>(
          [](uint32_t a, uint32_t p, uint32_t n) { return uint32_t(extract<32>(a, p, n, true)); });
      break;
    case Type::kU64:
      b.insn().run = ternary<uint64_t, uint64_t, uint32_t, uint32_t>(
          [](uint64_t a, uint32_t p, uint32_t n) { return extract<64>(a, p, n, false); });
      break;
    default:
      b.insn().run = ternary<uint64_t, uint64_t, uint32_t, uint32_t>(
          [](uint64_t a, uint32_t p, uint32_t n) { return extract<64>(a, p, n, true); });
  }
  return {};
}

Status bind_bfi(Binder& b) {
  OCTET_ASSIGN_OR_RETURN(const Type type, b.take_type({Type::kB32, Type::kB64}));
  OCTET_RETURN_IF_ERROR(b.done(5));
  OCTET_RETURN_IF_ERROR(b.result(0, type));
  OCTET_RETURN_IF_ERROR(b.source(1, type));
  OCTET_RETURN_IF_ERROR(b.source(2, type));
  OCTET_RETURN_IF_ERROR(b.source(3, Type::kU32));
  OCTET_RETURN_IF_ERROR(b.source(4, Type::kU32));
  b.insn().run = +[](Exec& x, const Insn& insn) {
    const auto& args = insn.args;
    machine::for_each_lane(x.lanes, [&](int lane) {
      const uint64_t from = x.value(args[1], lane), into = x.value(args[2], lane);
      const uint32_t at = x.words(args[3])[lane], length = x.words(args[4])[lane];
      x.set(args[0].slot, args[0].bits, lane,
            args[0].bits == 64 ? insert<64>(from, into, at, length)
                               : insert<32>(from, into, at, length));
    });
    return Outcome::kNext;
  };
  return {};
}

Status bind_brev(Binder& b) {
  OCTET_ASSIGN_OR_RETURN(const Type type, b.take_type({Type::kB32, Type::kB64}));
  OCTET_RETURN_IF_ERROR(b.done(2));
  OCTET_RETURN_IF_ERROR(b.result(0, type));
  OCTET_RETURN_IF_ERROR(b.source(1, type));
  const auto reverse = [](auto a) {
    decltype(a) d = 0;
    for (size_t i = 0; i < 8 * sizeof(a); ++i) d |= (a >> i & 1) << (8 * sizeof(a) - 1 - i);
    return d;
  };
  b.insn().run = type == Type::kB32 ? unary<uint32_t>(reverse) : unary<uint64_t>(reverse);
  return {};
}

Status bind_clz(Binder& b) {
  const auto count = [](auto a) { return uint32_t(std::countl_zero(a)); };
  return bind_count(b, count, count);
}
Status bind_popc(Binder& b) {
  const auto count = [](auto a) { return uint32_t(std::popcount(a)); };
  return bind_count(b, count, count);
}

}  // namespace octet::ptxsim::insn
