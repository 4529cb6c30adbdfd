// SPDX-License-Identifier: Apache-2.0
// The names of one kernel while it is decoded: scopes, registers and their slots, symbols, labels.
//
// A slot is given to a register, a literal or a symbol when it is first used: what nvcc declares and does not use takes no room.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ptxsim/insn/decode.h"
#include "ptxsim/machine/program.h"
#include "ptxsim/text/tree.h"

namespace octet::ptxsim::insn {

using machine::kReservedSharedBytes;

struct Register {
  machine::Slot slot = machine::kNoSlot;
  int bits = 0;  // 1 for a predicate
  text::Type type = text::Type::kB32;
};

class Names {
 public:
  Names(const text::Module& module, const ModuleData& data, machine::Program& program)
      : module_(module), data_(data), program_(program) {}

  void open_scope();
  void close_scope();
  Status declare(const text::Declaration& node);
  Status declare_parameter(const text::Declaration& node);
  Status declare_label(const text::Label& node, uint32_t index);
  // Once all is read: the targets of branches, the dynamic shared memory's place.
  Status finish();

  // The name as a register; none: no register has this name here.
  std::optional<Register> find_register(const std::string& name);
  // A slot that holds the symbol's address in its space, plus offset; the width that addresses have. None: no such symbol.
  std::optional<machine::Slot> find_symbol(const std::string& name, int64_t offset, int bits);
  // A slot of this special register; none: it is not known, or changes while a warp runs (find_changing_special).
  std::optional<machine::Slot> find_special(const std::string& name, int* bits);
  static std::optional<int> find_special_number(const std::string& name);
  machine::Slot literal(int bits, uint64_t value);
  machine::Slot allocate(int bits);
  // The branch at this index goes to this label of the scope that is open.
  void branch(uint32_t index, const std::string& label, text::Place place);

 private:
  struct Declared {
    text::Declaration node;
    std::vector<machine::Slot> slots;
  };
  struct Symbol {
    text::Space space = text::Space::kShared;
    uint64_t address = 0;
    bool is_dynamic = false;
    uint64_t align = 1;
  };
  struct Scope {
    int parent = -1;
    std::unordered_map<std::string, size_t> names;     // of declared_: whole names
    std::unordered_map<std::string, size_t> families;  // %r of %r<5>
    std::unordered_map<std::string, Symbol> symbols;
    std::unordered_map<std::string, uint32_t> labels;
  };
  struct Branch {
    uint32_t index;
    int scope;
    std::string label;
    text::Place place;
  };
  struct Dynamic {
    size_t preset;
    uint64_t align;
    int64_t offset;
  };

  bool is_taken(const std::string& name) const;
  Status declare_register(const text::Declaration& node);
  Status declare_variable(const text::Declaration& node);
  Symbol place_shared(const text::Declaration& node);
  const Symbol* symbol_of(const std::string& name);
  Register register_at(Declared& declared, size_t number);

  const text::Module& module_;
  const ModuleData& data_;
  machine::Program& program_;
  std::vector<Scope> scopes_;
  int open_ = -1;
  std::vector<Declared> declared_;
  std::map<std::pair<int, uint64_t>, machine::Slot> literals_;
  std::map<std::pair<std::string, std::pair<int64_t, int>>, machine::Slot> shared_slots_;
  std::unordered_map<std::string, machine::Slot> specials_;
  std::unordered_map<std::string, Symbol> module_symbols_;
  std::vector<Branch> branches_;
  std::vector<Dynamic> dynamics_;
  machine::Slot next_predicate_ = 0;
  int predicates_left_ = 0;
};

}  // namespace octet::ptxsim::insn
