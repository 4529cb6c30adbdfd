// SPDX-License-Identifier: Apache-2.0
#include "mutants.h"

#include <map>

#include "changes.h"
#include "ptxsim/text/print.h"
#include "source_frames.h"

namespace octet::mutation {
namespace {

using namespace ptxsim::text;  // NOLINT(google-build-using-namespace): the tree

bool has_site(const Statement& statement) {
  if (const auto* insn = std::get_if<Instruction>(&statement.node))
    return !site_of(*insn).kind.empty();
  const auto* scope = std::get_if<Scope>(&statement.node);
  if (scope == nullptr) return false;
  for (const Statement& inner : scope->statements)
    if (has_site(inner)) return true;
  return false;
}

bool is_conditional(const Instruction& insn) { return insn.opcode == "bra" && insn.guard; }

// Whether a branch leaves out a site or comes back to one: it stands between the branch and its label.
bool guards_a_site(const Scope& scope, size_t branch, const std::string& label) {
  size_t target = scope.statements.size();
  for (size_t i = 0; i < scope.statements.size(); ++i) {
    const auto* at = std::get_if<Label>(&scope.statements[i].node);
    if (at != nullptr && at->name == label) target = i;
  }
  if (target == scope.statements.size()) return false;
  for (size_t i = std::min(branch, target); i < std::max(branch, target); ++i)
    if (has_site(scope.statements[i])) return true;
  return false;
}

class Finder {
 public:
  explicit Finder(const Module& module) : frames_(module) {
    for (item_ = 0; item_ < module.items.size(); ++item_) {
      const auto* function = std::get_if<Function>(&module.items[item_]);
      if (function == nullptr || !function->is_entry || !function->body) continue;
      frames_.begin(function->name);
      counts_.clear();
      walk(*function->body);
    }
  }
  std::vector<Mutant> take() { return std::move(found_); }

 private:
  void walk(const Scope& scope) {
    for (size_t i = 0; i < scope.statements.size(); ++i) {
      path_.push_back(i);
      const auto& node = scope.statements[i].node;
      if (const auto* location = std::get_if<Location>(&node)) frames_.see(*location);
      if (const auto* inner = std::get_if<Scope>(&node)) walk(*inner);
      if (const auto* insn = std::get_if<Instruction>(&node)) take_instruction(scope, i, *insn);
      path_.pop_back();
    }
  }

  void take_instruction(const Scope& scope, size_t index, const Instruction& insn) {
    if (is_conditional(insn) && !insn.operands.empty() &&
        guards_a_site(scope, index, insn.operands[0].name)) {
      Instruction other = insn;
      other.guard->is_negated = !other.guard->is_negated;
      add(insn, "predicate", "bra", {{"negated", {{other}}}});
    }
    if (const Site site = site_of(insn); !site.kind.empty())
      add(insn, site.kind, site.opcode, changes_of(insn));
  }

  void add(const Instruction& insn, std::string_view kind, std::string_view opcode,
           std::vector<Change> changes) {
    const Frame frame = frames_.current();
    const std::string like = frames_.kernel() + "/" + frame.function + "/" + std::string(opcode);
    const std::string site = like + "#" + std::to_string(++counts_[like]);
    for (Change& change : changes) {
      found_.push_back({site + "/" + change.name, std::string(kind), frame.where, print(insn),
                        item_, path_, std::move(change.instead)});
    }
  }

  SourceFrames frames_;
  size_t item_ = 0;
  std::vector<size_t> path_;
  std::map<std::string, int> counts_;
  std::vector<Mutant> found_;
};

}  // namespace

std::vector<Mutant> find_mutants(const Module& module) { return Finder(module).take(); }

Module mutated(Module module, const Mutant& mutant) {
  Scope* scope = &*std::get<Function>(module.items[mutant.item]).body;
  for (size_t i = 0; i + 1 < mutant.path.size(); ++i)
    scope = &std::get<Scope>(scope->statements[mutant.path[i]].node);
  const auto at = scope->statements.begin() + static_cast<int64_t>(mutant.path.back());
  const auto behind = scope->statements.erase(at);
  scope->statements.insert(behind, mutant.instead.begin(), mutant.instead.end());
  return module;
}

}  // namespace octet::mutation
