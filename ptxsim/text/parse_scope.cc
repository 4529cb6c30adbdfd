// SPDX-License-Identifier: Apache-2.0
// What stands between braces in a function. PTX ISA 4.3, 7.1, 11.3 (.branchtargets and its like).
#include <fmt/format.h>

#include "ptxsim/text/parse.h"
#include "ptxsim/text/parts.h"

namespace octet::ptxsim::text {

namespace {

Result<TargetList> parse_targets(Cursor& cursor, Label label) {
  TargetList node;
  node.place = label.place;
  node.name = std::move(label.name);
  node.is_calls = cursor.at(".calltargets");
  cursor.take();
  OCTET_RETURN_IF_ERROR(parse_list(cursor, [&]() -> Status {
    OCTET_ASSIGN_OR_RETURN(std::string target, cursor.name("a target"));
    node.targets.push_back(std::move(target));
    return {};
  }));
  OCTET_RETURN_IF_ERROR(cursor.expect(";"));
  return node;
}

Result<CallPrototype> parse_prototype(Cursor& cursor, Label label) {
  CallPrototype node;
  node.place = label.place;
  node.name = std::move(label.name);
  cursor.take();
  if (cursor.at("(")) {
    OCTET_ASSIGN_OR_RETURN(node.results, parse_parameters(cursor));
  }
  OCTET_RETURN_IF_ERROR(cursor.expect("_"));
  if (cursor.at("(")) {
    OCTET_ASSIGN_OR_RETURN(node.parameters, parse_parameters(cursor));
  }
  node.is_noreturn = cursor.take_if(".noreturn");
  OCTET_RETURN_IF_ERROR(cursor.expect(";"));
  return node;
}

template <class Node>
Status append(Scope& scope, Result<Node> node) {
  if (!node.ok()) return node.status();
  scope.statements.push_back({std::move(node).value()});
  return {};
}

// A name and a colon: a label, or the name of a list that follows.
Status parse_labelled(Cursor& cursor, Scope& scope) {
  Label label{cursor.place(), std::string(cursor.peek().text)};
  cursor.take();
  cursor.take();
  if (cursor.at(".branchtargets") || cursor.at(".calltargets")) {
    return append(scope, parse_targets(cursor, std::move(label)));
  }
  if (cursor.at(".callprototype")) return append(scope, parse_prototype(cursor, std::move(label)));
  return append(scope, Result<Label>(std::move(label)));
}

Status parse_dotted(Cursor& cursor, Scope& scope) {
  if (cursor.at(".loc")) return append(scope, parse_location(cursor));
  if (cursor.at(".pragma")) return append(scope, parse_pragma(cursor));
  const auto space = find_space(cursor.peek().text.substr(1));
  if (!space || *space == Space::kGlobal || *space == Space::kConst) {
    return cursor.refusal(
        "a statement: .reg, .shared, .local, .param, .loc, .pragma, a label or an instruction");
  }
  OCTET_ASSIGN_OR_RETURN(auto declarations, parse_declarations(cursor, Linkage::kNone));
  for (Declaration& node : declarations) scope.statements.push_back({std::move(node)});
  return {};
}

Result<Scope> parse_nested(Cursor& cursor, int depth) {
  Scope scope;
  scope.place = cursor.place();
  if (depth == kMostScopes) {
    return error_at(scope.place, fmt::format("more than {} scopes within each other", kMostScopes));
  }
  OCTET_RETURN_IF_ERROR(cursor.expect("{"));
  while (!cursor.take_if("}")) {
    if (cursor.at("{")) {
      OCTET_RETURN_IF_ERROR(append(scope, parse_nested(cursor, depth + 1)));
    } else if (cursor.at(Token::Kind::kDotted)) {
      OCTET_RETURN_IF_ERROR(parse_dotted(cursor, scope));
    } else if (cursor.at(Token::Kind::kName) && !cursor.at("_") && cursor.peek(1).is(":")) {
      OCTET_RETURN_IF_ERROR(parse_labelled(cursor, scope));
    } else if (cursor.at(Token::Kind::kEnd)) {
      return cursor.refusal(
          fmt::format("the '}}' of line {}, column {}", scope.place.line, scope.place.column));
    } else {
      OCTET_RETURN_IF_ERROR(append(scope, parse_instruction(cursor)));
    }
  }
  return scope;
}

}  // namespace

Result<Scope> parse_scope(Cursor& cursor) { return parse_nested(cursor, 0); }

}  // namespace octet::ptxsim::text
