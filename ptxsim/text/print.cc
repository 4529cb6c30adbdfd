// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/text/print.h"

#include <fmt/format.h>

namespace octet::ptxsim::text {

namespace {

template <class Nodes, class Show>
std::string joined(const Nodes& nodes, Show show) {
  std::string out;
  for (const auto& node : nodes) {
    if (!out.empty()) out += ", ";
    out += show(node);
  }
  return out;
}

std::string as_is(const std::string& text) { return text; }
std::string quoted(const std::string& text) { return fmt::format("\"{}\"", text); }
std::string shown_offset(int64_t offset) { return offset == 0 ? "" : fmt::format("+{}", offset); }
std::string shown_align(uint64_t bytes) {
  return bytes == 0 ? "" : fmt::format(" .align {}", bytes);
}
std::string shown_point(const SourcePoint& at) {
  return fmt::format("{} {} {}", at.file, at.line, at.column);
}

std::string shown_initializer(const Initializer& node) {
  if (node.kind == Initializer::Kind::kNumber) return print_number(node.number);
  if (node.kind == Initializer::Kind::kList) {
    return fmt::format("{{{}}}", joined(node.items, shown_initializer));
  }
  const std::string symbol =
      node.is_generic ? fmt::format("generic({})", node.symbol) : node.symbol;
  const std::string address = symbol + shown_offset(node.offset);
  return node.mask == 0 ? address : fmt::format("0x{:X}({})", node.mask, address);
}

std::string shown_linkage(Linkage linkage) {
  return linkage == Linkage::kNone ? "" : fmt::format(".{} ", linkage_name(linkage));
}

std::string shown_declaration(const Declaration& node) {
  std::string out = shown_linkage(node.linkage) + fmt::format(".{}", space_name(node.space));
  if (node.is_managed) out += " .attribute(.managed)";
  out += shown_align(node.align_bytes);
  if (node.vector_elems != 1) out += fmt::format(" .v{}", node.vector_elems);
  out += fmt::format(" .{}", type_name(node.type));
  if (node.pointee) {
    out += " .ptr";
    if (node.pointee->space) out += fmt::format(" .{}", space_name(*node.pointee->space));
    out += shown_align(node.pointee->align_bytes);
  }
  out += fmt::format(" {}", node.name);
  if (node.count) out += fmt::format("<{}>", *node.count);
  for (const uint64_t dim : node.dims) out += dim == 0 ? "[]" : fmt::format("[{}]", dim);
  if (node.initializer) out += fmt::format(" = {}", shown_initializer(*node.initializer));
  return out;
}

std::string shown_parameters(const std::vector<Declaration>& nodes) {
  return fmt::format("({})", joined(nodes, shown_declaration));
}

std::string shown_parts(const Operand& node) {
  return joined(node.parts, [](const Operand& part) { return print(part); });
}

// A line a node; `indent` of what stands in the function.
struct Printer {
  std::string out;
  std::string indent;

  void line(const std::string& text) { out += indent + text + "\n"; }

  void operator()(const Instruction& node) { line(print(node)); }
  void operator()(const Label& node) { out += node.name + ":\n"; }
  void operator()(const Declaration& node) { line(shown_declaration(node) + ';'); }
  void operator()(const Pragma& node) {
    line(fmt::format(".pragma {};", joined(node.strings, quoted)));
  }
  void operator()(const TargetList& node) {
    line(fmt::format("{}: .{}targets {};", node.name, node.is_calls ? "call" : "branch",
                     joined(node.targets, as_is)));
  }
  void operator()(const CallPrototype& node) {
    const std::string results = node.results.empty() ? "" : shown_parameters(node.results) + ' ';
    line(fmt::format("{}: .callprototype {}_ {}{};", node.name, results,
                     shown_parameters(node.parameters), node.is_noreturn ? " .noreturn" : ""));
  }
  void operator()(const Location& node) {
    std::string text = fmt::format(".loc {}", shown_point(node.at));
    if (node.inlined) {
      text += fmt::format(", function_name {}", node.inlined->function);
      if (node.inlined->offset != 0) text += fmt::format("+{}", node.inlined->offset);
      text += fmt::format(", inlined_at {}", shown_point(node.inlined->at));
    }
    line(text);
  }
  void operator()(const Scope& node) {
    line("{");
    indent += '\t';
    for (const Statement& statement : node.statements) std::visit(*this, statement.node);
    indent.pop_back();
    line("}");
  }
  void operator()(const Function& node) {
    std::string head = shown_linkage(node.linkage) + (node.is_entry ? ".entry " : ".func ");
    if (!node.results.empty()) head += fmt::format("{} ", shown_parameters(node.results));
    line(fmt::format("{}{} {}", head, node.name, shown_parameters(node.parameters)));
    for (const Directive& directive : node.directives) {
      line(fmt::format(".{} {}", directive.name, fmt::join(directive.values, ", ")));
    }
    if (!node.body) line(";");
    if (node.body) (*this)(*node.body);
  }
  void operator()(const File& node) {
    line(fmt::format(".file {} \"{}\"", node.index, node.path) +
         (node.stamp ? fmt::format(", {}, {}", node.stamp->time, node.stamp->bytes) : ""));
  }
  void operator()(const Section& node) {
    line(fmt::format(".section {} {{", node.name));
    for (const SectionLine& entry : node.lines) {
      line(entry.label.empty() ? fmt::format(".{} {}", type_name(entry.type),
                                             joined(entry.values, shown_section_value))
                               : entry.label + ":");
    }
    line("}");
  }
  static std::string shown_section_value(const SectionValue& node) {
    if (node.name.empty()) return print_number(node.number);
    if (!node.minus.empty()) return fmt::format("{}-{}", node.name, node.minus);
    return node.name + shown_offset(node.offset);
  }
};

}  // namespace

std::string print(const Operand& node) {
  switch (node.kind) {
    case Operand::Kind::kSink:
      return "_";
    case Operand::Kind::kNumber:
      return print_number(node.number);
    case Operand::Kind::kVector:
      return fmt::format("{{{}}}", shown_parts(node));
    case Operand::Kind::kAddress:
      return fmt::format("[{}]", shown_parts(node));
    case Operand::Kind::kList:
      return fmt::format("({})", shown_parts(node));
    case Operand::Kind::kPair:
      return fmt::format("{}|{}", print(node.parts[0]), print(node.parts[1]));
    case Operand::Kind::kName:
      break;
  }
  return fmt::format("{}{}{}{}{}", node.is_negated ? "!" : "", node.name,
                     node.component.empty() ? "" : ".", node.component, shown_offset(node.offset));
}

std::string print(const Instruction& node) {
  std::string out;
  if (node.guard) out += fmt::format("@{}{} ", node.guard->is_negated ? "!" : "", node.guard->name);
  out += node.opcode;
  for (const std::string& modifier : node.modifiers) out += fmt::format(".{}", modifier);
  if (!node.operands.empty()) out += ' ';
  out += joined(node.operands, [](const Operand& operand) { return print(operand); });
  return out + ';';
}

std::string print(const Module& module) {
  Printer printer;
  printer.line(fmt::format(".version {}.{}", module.version_major, module.version_minor));
  printer.line(fmt::format(".target {}", joined(module.targets, as_is)));
  printer.line(fmt::format(".address_size {}", module.address_bits));
  for (const auto& item : module.items) std::visit(printer, item);
  return std::move(printer.out);
}

}  // namespace octet::ptxsim::text
