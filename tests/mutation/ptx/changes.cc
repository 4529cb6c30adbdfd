// SPDX-License-Identifier: Apache-2.0
#include "changes.h"

#include <algorithm>
#include <optional>

#include "rules.h"

namespace octet::mutation {
namespace {

using namespace ptxsim::text;  // NOLINT(google-build-using-namespace): the tree

const Rule* rule_of(const Instruction& insn) {
  const std::string whole = dotted(insn) + ".";
  const Rule* found = nullptr;
  for (const Rule& rule : rules()) {
    const bool is =
        whole.compare(0, rule.opcode.size(), rule.opcode) == 0 && whole[rule.opcode.size()] == '.';
    if (is && (found == nullptr || rule.opcode.size() > found->opcode.size())) found = &rule;
  }
  return found;
}

// The operand, or null: this form has none there.
Operand* find(Instruction& insn, const At& at) {
  std::vector<Operand*> among;
  for (Operand& operand : insn.operands) {
    const bool is_address = operand.kind == Operand::Kind::kAddress;
    if (at.among == At::Among::kAddresses ? is_address
                                          : at.among != At::Among::kOthers || !is_address)
      among.push_back(&operand);
  }
  if (at.among == At::Among::kFromEnd) std::reverse(among.begin(), among.end());
  if (at.index >= among.size()) return nullptr;
  Operand* found = among[at.index];
  for (const int part : {at.part, at.of_part}) {
    if (part < 0) continue;
    if (static_cast<size_t>(part) >= found->parts.size()) return nullptr;
    found = &found->parts[static_cast<size_t>(part)];
  }
  return found;
}

Operand name(std::string text) {
  Operand operand;
  operand.name = std::move(text);
  return operand;
}
Operand number(uint64_t bits) {
  Operand operand;
  operand.kind = Operand::Kind::kNumber;
  operand.number.bits = bits;
  return operand;
}
Instruction instruction(std::string opcode, std::vector<std::string> modifiers,
                        std::vector<Operand> operands) {
  Instruction insn;
  insn.opcode = std::move(opcode);
  insn.modifiers = std::move(modifiers);
  insn.operands = std::move(operands);
  return insn;
}
Instruction set_predicate(Operand to, bool is_true) {
  return instruction("setp", {is_true ? "eq" : "ne", "u32"}, {std::move(to), number(0), number(0)});
}

constexpr const char* kFresh = "%mutated";

// { .reg .type %mutated; before; insn; }
std::vector<Statement> in_scope(Type type, Instruction before, Instruction insn) {
  Declaration fresh;
  fresh.type = type;
  fresh.name = kFresh;
  Scope scope;
  scope.statements = {{std::move(fresh)}, {std::move(before)}, {std::move(insn)}};
  return {{std::move(scope)}};
}

std::optional<std::vector<Statement>> with_operand(Instruction insn, const Alter& alter) {
  Operand* at = find(insn, alter.at);
  if (at == nullptr) return {};
  const bool adds = alter.action == Action::kAdd;
  const uint64_t by = alter.bits == 32 ? alter.by & 0xFFFFFFFFU : alter.by;
  if (at->kind == Operand::Kind::kNumber) {
    at->number.bits = adds ? at->number.bits + alter.by : at->number.bits ^ by;
    at->number.is_negative = static_cast<int64_t>(at->number.bits) < 0;
    return std::vector<Statement>{{std::move(insn)}};
  }
  if (at->kind != Operand::Kind::kName) return {};
  Operand from = *at;
  from.offset = 0;
  at->name = kFresh;
  const bool is_long = alter.bits == 64;
  Instruction before =
      adds ? instruction("add", {"s32"}, {name(kFresh), from, number(by)})
           : instruction("xor", {is_long ? "b64" : "b32"}, {name(kFresh), from, number(by)});
  return in_scope(is_long ? Type::kB64 : Type::kB32, std::move(before), std::move(insn));
}

std::optional<std::vector<Statement>> with_offset(Instruction insn, const Alter& alter) {
  Operand* at = find(insn, alter.at);
  if (at == nullptr || at->parts.empty() || at->parts[0].kind != Operand::Kind::kName) return {};
  at->parts[0].offset += static_cast<int64_t>(alter.by);
  return std::vector<Statement>{{std::move(insn)}};
}

std::optional<std::vector<Statement>> with_predicate(Instruction insn, const Alter& alter) {
  Operand* at = find(insn, alter.at);
  if (at == nullptr || at->kind != Operand::Kind::kName) return {};
  at->name = kFresh;
  at->is_negated = false;
  return in_scope(Type::kPred, set_predicate(name(kFresh), alter.action == Action::kTrue),
                  std::move(insn));
}

// The wait's own guard stays.
std::vector<Statement> passing(const Instruction& insn) {
  Instruction instead = set_predicate(insn.operands[0], true);
  instead.guard = insn.guard;
  return {{std::move(instead)}};
}

// elect.sync d|p, mask
std::optional<std::vector<Statement>> elected(const Instruction& insn, bool all) {
  if (insn.operands.empty() || insn.operands[0].parts.size() != 2) return {};
  const Operand& p = insn.operands[0].parts[1];
  if (all) return std::vector<Statement>{{set_predicate(p, true)}};
  return std::vector<Statement>{{insn}, {instruction("not", {"pred"}, {p, p})}};
}

std::optional<std::vector<Statement>> weakened(Instruction insn) {
  auto& modifiers = insn.modifiers;
  const auto at = std::find_if(modifiers.begin(), modifiers.end(), [](const std::string& m) {
    return m == "release" || m == "acquire" || m == "acq_rel" || m == "relaxed";
  });
  if (at != modifiers.end() && *at == "relaxed") return {};
  if (at != modifiers.end()) {
    *at = "relaxed";
  } else if (insn.opcode == "mbarrier") {  // .release or .acquire, and .cta, where nothing is said
    const auto space = std::find_if(modifiers.begin(), modifiers.end(), [](const std::string& m) {
      return m.compare(0, 6, "shared") == 0 || m == "b64";
    });
    modifiers.insert(space, {"relaxed", "cta"});
  } else {
    return {};
  }
  return std::vector<Statement>{{std::move(insn)}};
}

std::optional<std::vector<Statement>> altered(const Instruction& insn, const Alter& alter) {
  switch (alter.action) {
    case Action::kRemove:
      return std::vector<Statement>{};
    case Action::kPass:
      return passing(insn);
    case Action::kAll:
    case Action::kOthers:
      return elected(insn, alter.action == Action::kAll);
    case Action::kXor:
    case Action::kAdd:
      return with_operand(insn, alter);
    case Action::kOffset:
      return with_offset(insn, alter);
    case Action::kTrue:
    case Action::kFalse:
      return with_predicate(insn, alter);
    case Action::kRelax:
      return weakened(insn);
  }
  return {};
}

}  // namespace

std::string dotted(const Instruction& insn) {
  std::string text = insn.opcode;
  for (const std::string& modifier : insn.modifiers) text += "." + modifier;
  return text;
}

Site site_of(const Instruction& insn) {
  const Rule* rule = rule_of(insn);
  return rule == nullptr ? Site{} : Site{rule->kind, rule->opcode};
}

std::vector<Change> changes_of(const Instruction& insn) {
  std::vector<Change> all;
  const Rule* rule = rule_of(insn);
  if (rule == nullptr) return all;
  for (const Alter& alter : rule->alters) {
    if (auto instead = altered(insn, alter); instead)
      all.push_back({std::string(alter.name), std::move(*instead)});
  }
  if (insn.guard) {
    Instruction other = insn;
    other.guard->is_negated = !other.guard->is_negated;
    all.push_back({"guard negated", {{other}}});
    other.guard.reset();
    all.push_back({"guard dropped", {{other}}});
  }
  return all;
}

}  // namespace octet::mutation
