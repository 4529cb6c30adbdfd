// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic, PTX ISA 9.7.1. The forms on floats of the same opcodes are float.cc's and packed.cc's.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "ptxsim/insn/elementwise.h"
#include "ptxsim/insn/families.h"
#include "ptxsim/insn/float.h"

namespace octet::ptxsim::insn {
namespace {

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

constexpr std::initializer_list<Type> kIntegers = {Type::kU16, Type::kU32, Type::kU64,
                                                   Type::kS16, Type::kS32, Type::kS64};

Status bind_two(Binder& b, Type type) {
  OCTET_RETURN_IF_ERROR(b.done(3));
  OCTET_RETURN_IF_ERROR(b.result(0, type));
  OCTET_RETURN_IF_ERROR(b.source(1, type));
  return b.source(2, type);
}

// f for the type's unsigned twin: what wraps is the same for both.
template <class F>
machine::Run wrapping(Type type, F f) {
  switch (text::type_bits(type)) {
    case 16:
      return binary<uint16_t>(f);
    case 32:
      return binary<uint32_t>(f);
    default:
      return binary<uint64_t>(f);
  }
}

// f for the type itself.
template <class F>
machine::Run typed(Type type, F f) {
  switch (type) {
    case Type::kU16:
      return binary<uint16_t>(f);
    case Type::kU32:
      return binary<uint32_t>(f);
    case Type::kU64:
      return binary<uint64_t>(f);
    case Type::kS16:
      return binary<uint16_t, int16_t>(f);
    case Type::kS32:
      return binary<uint32_t, int32_t>(f);
    default:
      return binary<uint64_t, int64_t>(f);
  }
}

template <class F>
Status bind_wrapping(Binder& b, F f) {
  OCTET_ASSIGN_OR_RETURN(const Type type, b.take_type(kIntegers));
  OCTET_RETURN_IF_ERROR(bind_two(b, type));
  b.insn().run = wrapping(type, f);
  return {};
}

template <class F>
Status bind_typed(Binder& b, F f) {
  OCTET_ASSIGN_OR_RETURN(const Type type, b.take_type(kIntegers));
  OCTET_RETURN_IF_ERROR(bind_two(b, type));
  b.insn().run = typed(type, f);
  return {};
}

template <class F>
Status bind_one(Binder& b, F f) {
  OCTET_ASSIGN_OR_RETURN(const Type type, b.take_type({Type::kS16, Type::kS32, Type::kS64}));
  OCTET_RETURN_IF_ERROR(b.done(2));
  OCTET_RETURN_IF_ERROR(b.result(0, type));
  OCTET_RETURN_IF_ERROR(b.source(1, type));
  b.insn().run = type == Type::kS16   ? unary<uint16_t>(f)
                 : type == Type::kS32 ? unary<uint32_t>(f)
                                      : unary<uint64_t>(f);
  return {};
}

template <class T>
T high_half(T a, T c) {
  if constexpr (sizeof(T) == 8) {
    using Wide = std::conditional_t<std::is_signed_v<T>, Int128, Uint128>;
    return T((Wide(a) * Wide(c)) >> 64);
  } else {
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    return T((Wide(a) * Wide(c)) >> (8 * sizeof(T)));
  }
}

enum class Part { kLo, kHi, kWide };

Status take_product(Binder& b, Part* part, Type* type) {
  OCTET_ASSIGN_OR_RETURN(const int index, b.expect_one_of({"lo", "hi", "wide"}));
  *part = Part(index);
  OCTET_ASSIGN_OR_RETURN(*type, b.take_type(kIntegers));
  if (*part == Part::kWide && text::type_bits(*type) == 64)
    return b.refuse("want 16 or 32 bits for .wide");
  return {};
}

Type widened(Type type) {
  switch (type) {
    case Type::kU16:
      return Type::kU32;
    case Type::kS16:
      return Type::kS32;
    case Type::kU32:
      return Type::kU64;
    default:
      return Type::kS64;
  }
}

}  // namespace

Status bind_add(Binder& b) {
  if (is_float_form(b)) return bind_float_add(b);
  return bind_wrapping(b, [](auto a, auto c) { return decltype(a)(a + c); });
}

Status bind_sub(Binder& b) {
  if (is_float_form(b)) return bind_float_sub(b);
  return bind_wrapping(b, [](auto a, auto c) { return decltype(a)(a - c); });
}

Status bind_mul(Binder& b) {
  if (is_float_form(b)) return bind_float_mul(b);
  Part part;
  Type type;
  OCTET_RETURN_IF_ERROR(take_product(b, &part, &type));
  OCTET_RETURN_IF_ERROR(b.done(3));
  OCTET_RETURN_IF_ERROR(b.result(0, part == Part::kWide ? widened(type) : type));
  OCTET_RETURN_IF_ERROR(b.source(1, type));
  OCTET_RETURN_IF_ERROR(b.source(2, type));
  if (part == Part::kLo) {
    b.insn().run = wrapping(type, [](auto a, auto c) { return decltype(a)(uint64_t{a} * c); });
  } else if (part == Part::kHi) {
    b.insn().run = typed(
        type, [](auto a, auto c) { return std::make_unsigned_t<decltype(a)>(high_half(a, c)); });
  } else {
    switch (type) {
      case Type::kU16:
        b.insn().run =
            binary<uint32_t, uint16_t>([](uint16_t a, uint16_t c) { return uint32_t{a} * c; });
        break;
      case Type::kS16:
        b.insn().run = binary<uint32_t, int16_t>(
            [](int16_t a, int16_t c) { return uint32_t(int32_t{a} * c); });
        break;
      case Type::kU32:
        b.insn().run =
            binary<uint64_t, uint32_t>([](uint32_t a, uint32_t c) { return uint64_t{a} * c; });
        break;
      default:
        b.insn().run = binary<uint64_t, int32_t>(
            [](int32_t a, int32_t c) { return uint64_t(int64_t{a} * c); });
    }
  }
  return {};
}

Status bind_mad(Binder& b) {
  if (is_float_form(b)) return b.unmodelled("mad of floats: fma says what is meant");
  Part part;
  Type type;
  OCTET_RETURN_IF_ERROR(take_product(b, &part, &type));
  const Type sum = part == Part::kWide ? widened(type) : type;
  OCTET_RETURN_IF_ERROR(b.done(4));
  OCTET_RETURN_IF_ERROR(b.result(0, sum));
  OCTET_RETURN_IF_ERROR(b.source(1, type));
  OCTET_RETURN_IF_ERROR(b.source(2, type));
  OCTET_RETURN_IF_ERROR(b.source(3, sum));
  const auto lo = [](auto a, auto c, auto d) { return decltype(a)(uint64_t{a} * c + d); };
  if (part == Part::kHi) return b.unmodelled("mad.hi is not modelled");
  if (part == Part::kLo) {
    b.insn().run = text::type_bits(type) == 16   ? ternary<uint16_t>(lo)
                   : text::type_bits(type) == 32 ? ternary<uint32_t>(lo)
                                                 : ternary<uint64_t>(lo);
    return {};
  }
  switch (type) {
    case Type::kU16:
      b.insn().run = ternary<uint32_t, uint16_t, uint16_t, uint32_t>(
          [](uint16_t a, uint16_t c, uint32_t d) { return uint32_t{a} * c + d; });
      break;
    case Type::kS16:
      b.insn().run = ternary<uint32_t, int16_t, int16_t, uint32_t>(
          [](int16_t a, int16_t c, uint32_t d) { return uint32_t(int32_t{a} * c) + d; });
      break;
    case Type::kU32:
      b.insn().run = ternary<uint64_t, uint32_t, uint32_t, uint64_t>(
          [](uint32_t a, uint32_t c, uint64_t d) { return uint64_t{a} * c + d; });
      break;
    default:
      b.insn().run = ternary<uint64_t, int32_t, int32_t, uint64_t>(
          [](int32_t a, int32_t c, uint64_t d) { return uint64_t(int64_t{a} * c) + d; });
  }
  return {};
}

// What a division by zero gives PTX leaves open (9.7.1.8); here it is all ones, a remainder, too, as on an H200.
Status bind_div(Binder& b) {
  if (is_float_form(b)) return bind_float_div(b);
  return bind_typed(b, [](auto a, auto c) {
    using T = decltype(a);
    using U = std::make_unsigned_t<T>;
    if (c == 0) return U(~U{0});
    if constexpr (std::is_signed_v<T>) {
      if (c == T(-1)) return U(U{0} - U(a));  // the least by -1 wraps
    }
    return U(a / c);
  });
}

Status bind_rem(Binder& b) {
  return bind_typed(b, [](auto a, auto c) {
    using T = decltype(a);
    using U = std::make_unsigned_t<T>;
    if (c == 0) return U(~U{0});
    if constexpr (std::is_signed_v<T>) {
      if (c == T(-1)) return U{0};
    }
    return U(a % c);
  });
}

Status bind_abs(Binder& b) {
  if (is_float_form(b)) return bind_float_abs(b);
  return bind_one(b, [](auto a) {
    using U = decltype(a);
    return std::make_signed_t<U>(a) < 0 ? U(U{0} - a) : a;
  });
}

Status bind_neg(Binder& b) {
  if (is_float_form(b)) return bind_float_neg(b);
  return bind_one(b, [](auto a) { return decltype(a)(decltype(a){0} - a); });
}

Status bind_min(Binder& b) {
  if (is_float_form(b)) return bind_float_min(b);
  const bool relu = b.take("relu");
  if (relu) return b.unmodelled("min.relu is not modelled");
  return bind_typed(
      b, [](auto a, auto c) { return std::make_unsigned_t<decltype(a)>(a < c ? a : c); });
}

Status bind_max(Binder& b) {
  if (is_float_form(b)) return bind_float_max(b);
  return bind_typed(
      b, [](auto a, auto c) { return std::make_unsigned_t<decltype(a)>(a > c ? a : c); });
}

}  // namespace octet::ptxsim::insn
