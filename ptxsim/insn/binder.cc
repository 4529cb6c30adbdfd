// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/insn/binder.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>

#include "ptxsim/insn/names.h"
#include "ptxsim/text/print.h"

namespace octet::ptxsim::insn {
namespace {

using machine::kNoSlot;
using text::Operand;

int bits_of(Type type) { return type == Type::kPred ? 1 : text::type_bits(type); }

bool is_bits(Type type) {
  return type == Type::kB8 || type == Type::kB16 || type == Type::kB32 || type == Type::kB64 ||
         type == Type::kB128;
}

// PTX ISA 9.4: the same width; .b agrees with everything, signed with unsigned, floats with nothing else.
bool agrees(Type declared, Type wanted) {
  return is_bits(declared) || is_bits(wanted) || is_float(declared) == is_float(wanted);
}

// A literal's bits as a value of `type`; false: it is none.
bool literal_bits(const text::Number& number, Type type, uint64_t* bits) {
  using Kind = text::Number::Kind;
  *bits = number.bits;
  if (number.kind == Kind::kInteger) return !is_float(type) || number.bits == 0;
  if (type == Type::kF32 || type == Type::kB32) {
    if (number.kind == Kind::kF64)
      *bits = std::bit_cast<uint32_t>(float(std::bit_cast<double>(number.bits)));
    return true;
  }
  if (type == Type::kF64 || type == Type::kB64) {
    if (number.kind == Kind::kF32)
      *bits = std::bit_cast<uint64_t>(double(std::bit_cast<float>(uint32_t(number.bits))));
    return true;
  }
  return false;
}

}  // namespace

bool is_float(Type type) {
  return type == Type::kF16 || type == Type::kF16x2 || type == Type::kF32 || type == Type::kF64;
}

bool is_signed(Type type) {
  return type == Type::kS8 || type == Type::kS16 || type == Type::kS32 || type == Type::kS64;
}

bool Binder::take(std::string_view modifier) {
  if (taken_ == node_.modifiers.size() || node_.modifiers[taken_] != modifier) return false;
  ++taken_;
  return true;
}

bool Binder::has(std::string_view modifier) const {
  return std::find(node_.modifiers.begin() + int64_t(taken_), node_.modifiers.end(), modifier) !=
         node_.modifiers.end();
}

int Binder::take_one_of(std::initializer_list<std::string_view> modifiers) {
  int index = 0;
  for (const std::string_view modifier : modifiers) {
    if (take(modifier)) return index;
    ++index;
  }
  return -1;
}

Status Binder::expect(std::string_view modifier) {
  return take(modifier) ? Status{} : refuse(fmt::format("want the modifier '.{}'", modifier));
}

Result<int> Binder::expect_one_of(std::initializer_list<std::string_view> modifiers) {
  const int index = take_one_of(modifiers);
  if (index < 0)
    return refuse(fmt::format("want one of the modifiers .{}", fmt::join(modifiers, " .")));
  return index;
}

bool Binder::take_cache_hints() {
  bool has_policy = false;
  for (;;) {
    if (take("L2::cache_hint")) {
      has_policy = true;
    } else if (take_one_of({"ca", "cg", "cs", "lu", "cv", "wb", "wt", "L1::evict_normal",
                            "L1::evict_unchanged", "L1::evict_first", "L1::evict_last",
                            "L1::no_allocate", "L2::evict_normal", "L2::evict_first",
                            "L2::evict_last", "L2::64B", "L2::128B", "L2::256B"}) < 0) {
      return has_policy;
    }
  }
}

Result<Type> Binder::take_type(std::initializer_list<Type> types) {
  if (taken_ < node_.modifiers.size()) {
    const auto type = text::find_type(node_.modifiers[taken_]);
    if (type &&
        (types.size() == 0 || std::find(types.begin(), types.end(), *type) != types.end())) {
      ++taken_;
      return *type;
    }
  }
  std::string want;
  for (const Type type : types) (want += " .") += text::type_name(type);
  return refuse(want.empty() ? "want a type" : fmt::format("want one of the types{}", want));
}

Status Binder::done(size_t num_operands) { return done(num_operands, num_operands); }

Status Binder::done(size_t fewest, size_t most) {
  if (taken_ < node_.modifiers.size()) {
    return unmodelled(fmt::format("the modifier '.{}' is not known here", node_.modifiers[taken_]));
  }
  if (num_operands() < fewest || num_operands() > most) {
    return refuse(fewest == most
                      ? fmt::format("{} operands, want {}", num_operands(), fewest)
                      : fmt::format("{} operands, want {} to {}", num_operands(), fewest, most));
  }
  return {};
}

Status Binder::push(const Operand& at, const Arg& arg) {
  if (insn_.num_args == machine::kMostArgs) return refuse(at, "more operands than a record holds");
  insn_.args[insn_.num_args++] = arg;
  return {};
}

Result<Arg> Binder::register_of(const Operand& at, Type type, bool is_wide) {
  if (at.offset != 0 || !at.component.empty()) return refuse(at, "want a register");
  const auto found = names_.find_register(at.name);
  if (!found) return refuse(at, fmt::format("'{}' is not declared as a register here", at.name));
  const int want = bits_of(type);
  const bool fits = is_wide ? found->bits >= want && found->bits != 1 : found->bits == want;
  if (!fits)
    return refuse(at, fmt::format("'{}' has {} bits, want {}{}", at.name, found->bits, want,
                                  is_wide ? " or more" : ""));
  if (!is_wide && !agrees(found->type, type)) {
    return refuse(at, fmt::format("'{}' is .{}, want .{}", at.name, text::type_name(found->type),
                                  text::type_name(type)));
  }
  Arg arg;
  arg.slot = found->slot;
  arg.bits = uint8_t(found->bits);
  return arg;
}

Result<Arg> Binder::value_of(const Operand& at, Type type, bool is_wide) {
  Arg arg;
  arg.bits = uint8_t(bits_of(type));
  if (at.kind == Operand::Kind::kNumber) {
    uint64_t bits = 0;
    if (arg.bits > 64 || !literal_bits(at.number, type, &bits)) {
      return refuse(at, fmt::format("the literal is no value of .{}", text::type_name(type)));
    }
    arg.slot = names_.literal(arg.bits, bits);
    return arg;
  }
  if (at.kind != Operand::Kind::kName) return refuse(at, "want a register or a literal");
  if (at.is_negated) return refuse(at, "'!' stands before predicates alone");
  if (names_.find_register(at.name)) return register_of(at, type, is_wide);
  int special_bits = 0;
  const std::string whole = at.component.empty() ? at.name : at.name + "." + at.component;
  if (const auto special = names_.find_special(whole, &special_bits)) {
    if (special_bits != arg.bits)
      return refuse(at, fmt::format("'{}' has {} bits, want {}", whole, special_bits, arg.bits));
    arg.slot = *special;
    return arg;
  }
  if (!at.component.empty() || (arg.bits != 32 && arg.bits != 64)) {
    return refuse(at, fmt::format("'{}' is not declared here", whole));
  }
  const auto symbol = names_.find_symbol(at.name, at.offset, arg.bits);
  if (!symbol) return refuse(at, fmt::format("'{}' is not declared here", at.name));
  arg.slot = *symbol;
  return arg;
}

Status Binder::source(const Operand& at, Type type) {
  OCTET_ASSIGN_OR_RETURN(const Arg arg, value_of(at, type, false));
  return push(at, arg);
}

Status Binder::wide_source(const Operand& at, Type type) {
  OCTET_ASSIGN_OR_RETURN(const Arg arg, value_of(at, type, true));
  return push(at, arg);
}

Status Binder::result(const Operand& at, Type type) {
  Arg arg;
  arg.bits = uint8_t(bits_of(type));
  if (at.kind == Operand::Kind::kSink) return push(at, arg);
  if (at.kind != Operand::Kind::kName || at.is_negated) return refuse(at, "want a register");
  OCTET_ASSIGN_OR_RETURN(arg, register_of(at, type, false));
  return push(at, arg);
}

Status Binder::wide_result(const Operand& at, Type type) {
  if (at.kind == Operand::Kind::kSink) return result(at, type);
  if (at.kind != Operand::Kind::kName || at.is_negated) return refuse(at, "want a register");
  OCTET_ASSIGN_OR_RETURN(const Arg arg, register_of(at, type, true));
  return push(at, arg);
}

Status Binder::predicate_source(size_t i) {
  const Operand& at = operand(i);
  Arg arg;
  arg.bits = 1;
  // 0, 1, and -1, which nvcc writes for true.
  if (at.kind == Operand::Kind::kNumber && at.number.kind == text::Number::Kind::kInteger &&
      at.number.bits + 1 <= 2) {
    arg.slot = names_.literal(1, at.number.bits & 1);
    return push(at, arg);
  }
  if (at.kind != Operand::Kind::kName) return refuse(at, "want a predicate");
  OCTET_ASSIGN_OR_RETURN(arg, register_of(at, Type::kPred, false));
  arg.negated = at.is_negated;
  return push(at, arg);
}

Status Binder::predicate_result(size_t i) { return predicate_result(operand(i)); }
Status Binder::predicate_result(const Operand& at) { return result(at, Type::kPred); }

Status Binder::sink(Type type) {
  Operand at;
  at.kind = Operand::Kind::kSink;
  at.place = node_.place;
  return result(at, type);
}

Status Binder::vector(const Operand& at, Type type, size_t count, bool is_wide, bool is_result) {
  if (at.kind != Operand::Kind::kVector || at.parts.size() != count) {
    return refuse(at, fmt::format("want a vector of {}", count));
  }
  Arg whole;
  whole.list = uint32_t(program_.lists.size());
  whole.count = uint16_t(count);
  whole.bits = uint8_t(bits_of(type));
  for (const Operand& part : at.parts) {
    Arg element;
    if (part.kind == Operand::Kind::kSink && is_result) {
      element.bits = whole.bits;
    } else if (is_result) {
      if (part.kind != Operand::Kind::kName) return refuse(part, "want a register");
      OCTET_ASSIGN_OR_RETURN(element, register_of(part, type, is_wide));
    } else {
      OCTET_ASSIGN_OR_RETURN(element, value_of(part, type, is_wide));
    }
    if (element.bits > whole.bits && !is_wide) return refuse(part, "an element of another width");
    if (&part != &at.parts.front() && element.bits != whole.bits)
      return refuse(part, "an element of another width");
    whole.bits = element.bits;
    program_.lists.push_back(element.slot);
  }
  return push(at, whole);
}

Status Binder::source_vector(size_t i, Type type, size_t count, bool is_wide) {
  return vector(operand(i), type, count, is_wide, false);
}
Status Binder::source_vector(const Operand& at, Type type, size_t count) {
  return vector(at, type, count, false, false);
}
Status Binder::result_vector(size_t i, Type type, size_t count, bool is_wide) {
  return vector(operand(i), type, count, is_wide, true);
}

Status Binder::address(const Operand& at) {
  if (at.kind != Operand::Kind::kAddress || at.parts.size() != 1)
    return refuse(at, "want an address: [a] or [a+8]");
  return address_part(at.parts[0]);
}

Status Binder::address_part(const Operand& part) {
  Arg arg;
  arg.bits = 64;
  if (part.kind == Operand::Kind::kNumber) {
    arg.slot = names_.literal(64, part.number.bits);
    return push(part, arg);
  }
  if (part.kind != Operand::Kind::kName || !part.component.empty())
    return refuse(part, "want a register, a symbol or a number");
  if (const auto found = names_.find_register(part.name)) {
    if (found->bits != 32 && found->bits != 64) {
      return refuse(
          part, fmt::format("'{}' has {} bits, an address has 32 or 64", part.name, found->bits));
    }
    if (part.offset < std::numeric_limits<int32_t>::min() ||
        part.offset > std::numeric_limits<int32_t>::max()) {
      return refuse(part, fmt::format("the offset {} has more than 32 bits", part.offset));
    }
    arg.slot = found->slot;
    arg.bits = uint8_t(found->bits);
    arg.offset = int32_t(part.offset);
    return push(part, arg);
  }
  const auto symbol = names_.find_symbol(part.name, part.offset, 64);
  if (!symbol) return refuse(part, fmt::format("'{}' is not declared here", part.name));
  arg.slot = *symbol;
  return push(part, arg);
}

bool Binder::is_predicate(const Operand& at) const {
  const auto found = names_.find_register(at.name);
  return found && found->bits == 1;
}

Result<int64_t> Binder::number(size_t i) {
  const Operand& at = operand(i);
  if (at.kind != Operand::Kind::kNumber || at.number.kind != text::Number::Kind::kInteger) {
    return refuse(at, "want an integer literal");
  }
  return int64_t(at.number.bits);
}

Status Binder::label(size_t i) {
  const Operand& at = operand(i);
  if (at.kind != Operand::Kind::kName || at.offset != 0 || !at.component.empty())
    return refuse(at, "want a label");
  names_.branch(insn_.index, at.name, at.place);
  return {};
}

Status Binder::refuse(std::string_view what) const {
  return text::error_at(node_.place, fmt::format("'{}': {}", text::print(node_), what));
}

Status Binder::refuse(const Operand& at, std::string_view what) const {
  return text::error_at(at.place, fmt::format("'{}': {}", text::print(node_), what));
}

Status Binder::unmodelled(std::string_view what) const {
  return {Code::kUnsupported, refuse(what).why};
}

}  // namespace octet::ptxsim::insn
