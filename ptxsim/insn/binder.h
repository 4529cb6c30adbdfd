// SPDX-License-Identifier: Apache-2.0
// What a bind_* function makes one record with: it takes the modifiers in their order, then says of each operand what it must be.
//
//   Status bind_popc(Binder& b) {
//     OCTET_ASSIGN_OR_RETURN(const Type type, b.take_type({Type::kB32, Type::kB64}));
//     OCTET_RETURN_IF_ERROR(b.done(2));                         // no more modifiers; two operands
//     OCTET_RETURN_IF_ERROR(b.result(0, Type::kU32));           // args[0]
//     OCTET_RETURN_IF_ERROR(b.source(1, type));                 // args[1]
//     b.insn().run = ...;
//
// Each call that names an operand appends one Arg to the record.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "octet/status.hpp"
#include "ptxsim/machine/exec.h"
#include "ptxsim/machine/program.h"
#include "ptxsim/text/tree.h"

namespace octet::ptxsim::insn {

using machine::Arg;
using machine::Exec;
using machine::Insn;
using machine::LaneMask;
using machine::Outcome;
using text::Type;

class Names;  // decode's: scopes, slots, labels

class Binder {
 public:
  Binder(const text::Instruction& node, size_t taken, Names& names, machine::Program& program,
         Insn& insn)
      : node_(node), taken_(taken), names_(names), program_(program), insn_(insn) {}

  const text::Instruction& node() const { return node_; }
  Insn& insn() { return insn_; }
  machine::Program& program() { return program_; }

  // Modifiers.
  bool take(std::string_view modifier);       // the next one, if it is this
  bool has(std::string_view modifier) const;  // one that is not taken yet is this
  // Index of the next one in the list, which is then taken; -1: it is none of them.
  int take_one_of(std::initializer_list<std::string_view> modifiers);
  Status expect(std::string_view modifier);
  Result<int> expect_one_of(std::initializer_list<std::string_view> modifiers);
  // .level::eviction_priority, .level::cache_hint, .level::prefetch_size, .cop: they say nothing of values.
  // True where .L2::cache_hint was among them: the last operand is a policy.
  bool take_cache_hints();
  // `types` empty: any type of PTX.
  Result<Type> take_type(std::initializer_list<Type> types = {});
  // No modifier is left, and there are so many operands.
  Status done(size_t num_operands);
  Status done(size_t fewest, size_t most);

  size_t num_operands() const { return node_.operands.size(); }
  const text::Operand& operand(size_t i) const { return node_.operands[i]; }

  // Operands; each appends an Arg. `i` is the operand's place.
  Status source(size_t i, Type type) { return source(operand(i), type); }
  Status source(const text::Operand& at, Type type);
  Status result(size_t i, Type type) { return result(operand(i), type); }
  Status result(const text::Operand& at, Type type);  // a register or the sink
  // A register that may be wider than the type (ld, st, cvt); 8-bit types, too.
  Status wide_source(const text::Operand& at, Type type);
  Status wide_result(const text::Operand& at, Type type);
  Status predicate_source(size_t i);  // may be negated
  Status predicate_result(size_t i);
  Status predicate_result(const text::Operand& at);
  Status sink(Type type);  // an Arg for a result that this form leaves out
  // {a, b, ...}: one Arg with a list. `count` elements, of these the wide kind where `is_wide`.
  Status source_vector(size_t i, Type type, size_t count, bool is_wide = false);
  Status source_vector(const text::Operand& at, Type type, size_t count);
  Status result_vector(size_t i, Type type, size_t count, bool is_wide = false);
  // [a+8]: base and offset; a register of 32 or 64 bits, a symbol or a number.
  Status address(size_t i) { return address(operand(i)); }
  Status address(const text::Operand& at);
  // [a, {b, c}] of a tensor map: the address of parts[0]; the others are the caller's.
  Status address_part(const text::Operand& part);
  bool is_predicate(const text::Operand& at) const;
  // A literal.
  Result<int64_t> number(size_t i);
  // A label: the target, which is known once all of the function is read.
  Status label(size_t i);

  // "line 12, column 5: 'add.f7 ...': WHAT", at the instruction or at an operand.
  Status refuse(std::string_view what) const;
  Status refuse(const text::Operand& at, std::string_view what) const;
  // The same as kUnsupported: PTX, but not modelled.
  Status unmodelled(std::string_view what) const;

 private:
  Status push(const text::Operand& at, const Arg& arg);
  Result<Arg> value_of(const text::Operand& at, Type type, bool is_wide);
  Result<Arg> register_of(const text::Operand& at, Type type, bool is_wide);
  Status vector(const text::Operand& at, Type type, size_t count, bool is_wide, bool is_result);

  const text::Instruction& node_;
  size_t taken_;  // modifiers
  Names& names_;
  machine::Program& program_;
  Insn& insn_;
};

bool is_float(Type type);
bool is_signed(Type type);

}  // namespace octet::ptxsim::insn
