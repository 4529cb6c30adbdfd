// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/insn/decode.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <unordered_map>

#include "ptxsim/insn/families.h"
#include "ptxsim/insn/names.h"
#include "ptxsim/text/print.h"

namespace octet::ptxsim::insn {
namespace {

using machine::Program;

using Bind = Status (*)(Binder&);

const std::unordered_map<std::string_view, Bind>& opcodes() {
  static const std::unordered_map<std::string_view, Bind> table = {
#define OCTET_PTX_OPCODE(name, bind) {name, bind},
#include "ptxsim/insn/opcodes.inc"
#undef OCTET_PTX_OPCODE
  };
  return table;
}

// The longest name of opcodes.inc that the instruction begins with, and how many modifiers are in it.
Bind find_bind(const text::Instruction& node, size_t* taken) {
  Bind found = nullptr;
  std::string name = node.opcode;
  for (size_t i = 0;; ++i) {
    if (const auto row = opcodes().find(name); row != opcodes().end()) {
      found = row->second;
      *taken = i;
    }
    if (i == node.modifiers.size()) return found;
    name += "." + node.modifiers[i];
  }
}

class Decoder {
 public:
  Decoder(const text::Module& module, const ModuleData& data, Program& program)
      : program_(program), names_(module, data, program) {}

  Status function(const text::Function& node) {
    names_.open_scope();
    for (const auto& parameter : node.parameters)
      OCTET_RETURN_IF_ERROR(names_.declare_parameter(parameter));
    for (const auto& directive : node.directives) read(directive);
    OCTET_RETURN_IF_ERROR(scope(*node.body));
    append_return(node.place);
    return names_.finish();
  }

 private:
  void read(const text::Directive& directive) {
    std::array<uint32_t, 3>* into = directive.name == "reqntid"   ? &program_.required_threads
                                    : directive.name == "maxntid" ? &program_.most_threads
                                    : directive.name == "reqnctapercluster" ? &program_.cluster
                                                                            : nullptr;
    if (into == nullptr) return;  // the others are for ptxas
    into->fill(1);
    for (size_t i = 0; i < directive.values.size() && i < 3; ++i)
      (*into)[i] = uint32_t(directive.values[i]);
  }

  Status scope(const text::Scope& node) {
    names_.open_scope();
    for (const text::Statement& statement : node.statements) {
      OCTET_RETURN_IF_ERROR(
          std::visit([&](const auto& inner) { return this->statement(inner); }, statement.node));
    }
    names_.close_scope();
    return {};
  }

  Status statement(const text::Scope& node) { return scope(node); }
  Status statement(const text::Declaration& node) { return names_.declare(node); }
  Status statement(const text::Label& node) {
    return names_.declare_label(node, uint32_t(program_.code.size()));
  }
  Status statement(const text::Location&) { return {}; }
  Status statement(const text::Pragma&) { return {}; }
  Status statement(const text::TargetList& node) {
    return unmodelled(node.place, ".branchtargets and .calltargets");
  }
  Status statement(const text::CallPrototype& node) {
    return unmodelled(node.place, ".callprototype");
  }

  static Status unmodelled(text::Place place, std::string_view what) {
    return {Code::kUnsupported, text::error_at(place, fmt::format("{} is not modelled", what)).why};
  }

  Status statement(const text::Instruction& node) {
    size_t taken = 0;
    const Bind bind = find_bind(node, &taken);
    if (bind == nullptr) return unmodelled(node.place, fmt::format("'{}'", text::print(node)));
    machine::Insn insn;
    insn.index = uint32_t(program_.code.size());
    insn.place = node.place;
    if (node.guard) OCTET_RETURN_IF_ERROR(guard(*node.guard, insn));
    Binder binder(node, taken, names_, program_, insn);
    OCTET_RETURN_IF_ERROR(bind(binder));
    program_.code.push_back(insn);
    program_.texts.push_back(text::print(node));
    return {};
  }

  Status guard(const text::Guard& node, machine::Insn& insn) {
    const auto found = names_.find_register(node.name);
    if (!found || found->bits != 1)
      return text::error_at(node.place, fmt::format("'{}' is no predicate here", node.name));
    insn.guard = found->slot;
    insn.guard_flip = node.is_negated ? machine::kAllLanes : 0;
    return {};
  }

  // The end of a body is a ret (PTX ISA 9.7.12.5).
  void append_return(text::Place place) {
    text::Instruction node;
    node.place = place;
    node.opcode = "ret";
    (void)statement(node);
  }

  Program& program_;
  Names names_;
};

Result<const text::Function*> find_kernel(const text::Module& module, std::string_view kernel) {
  std::vector<const text::Function*> exact, similar;
  std::string all;
  for (const auto& item : module.items) {
    const auto* function = std::get_if<text::Function>(&item);
    if (function == nullptr || !function->is_entry || !function->body) continue;
    all += "\n  " + function->name;
    if (function->name == kernel) exact.push_back(function);
    if (function->name.find(kernel) != std::string::npos) similar.push_back(function);
  }
  if (exact.size() == 1) return exact[0];
  if (similar.size() == 1) return similar[0];
  return invalid_argument(
      fmt::format("{} kernels are named '{}', want one of:{}", similar.size(), kernel, all));
}

}  // namespace

Result<Program> decode(const text::Module& module, std::string_view kernel,
                       const ModuleData& data) {
  if (module.address_bits != 64)
    return unsupported(fmt::format(".address_size {}, want 64", module.address_bits));
  OCTET_ASSIGN_OR_RETURN(const text::Function* function, find_kernel(module, kernel));
  Program program;
  program.name = function->name;
  OCTET_RETURN_IF_ERROR(Decoder(module, data, program).function(*function));
  return program;
}

}  // namespace octet::ptxsim::insn
