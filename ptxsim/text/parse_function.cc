// SPDX-License-Identifier: Apache-2.0
// Kernels and device functions. PTX ISA 5.1.6, 7.1, 11.2 (.entry, .func), 11.4, 11.7, 11.8.
#include <fmt/format.h>

#include "ptxsim/text/parts.h"

namespace octet::ptxsim::text {

namespace {

struct DirectiveRow {
  std::string_view name;  // with its dot
  size_t least_values, most_values;
  bool of_entry, of_func;
};
constexpr DirectiveRow kDirectives[] = {
#define OCTET_PTX_DIRECTIVE(name, least, most, of_entry, of_func) \
  {"." #name, least, most, of_entry, of_func},
#include "ptxsim/text/directives.inc"
#undef OCTET_PTX_DIRECTIVE
};

const DirectiveRow* find_directive(const Token& token) {
  for (const DirectiveRow& row : kDirectives) {
    if (token.is(row.name)) return &row;
  }
  return nullptr;
}

Result<Directive> parse_directive(Cursor& cursor, bool is_entry) {
  const DirectiveRow* row = find_directive(cursor.peek());
  if (row == nullptr) return cursor.refusal("a function's directive, '{' or ';'");
  if (!(is_entry ? row->of_entry : row->of_func)) {
    return cursor.refusal(is_entry ? "a directive of a kernel"
                                   : "a directive of a device function");
  }
  Directive node;
  node.place = cursor.place();
  node.name = std::string(cursor.take().text.substr(1));
  for (size_t i = 0; i < row->most_values; ++i) {
    if (i >= row->least_values && !cursor.at(",")) break;
    if (i != 0) OCTET_RETURN_IF_ERROR(cursor.expect(","));
    OCTET_ASSIGN_OR_RETURN(const uint64_t value,
                           cursor.natural(fmt::format("a number for {}", row->name)));
    node.values.push_back(value);
  }
  return node;
}

}  // namespace

Result<Function> parse_function(Cursor& cursor, Linkage linkage) {
  Function node;
  node.linkage = linkage;
  node.is_entry = cursor.at(".entry");
  if (!node.is_entry && !cursor.at(".func")) return cursor.refusal(".entry or .func");
  cursor.take();
  if (!node.is_entry && cursor.at("(")) {
    OCTET_ASSIGN_OR_RETURN(node.results, parse_parameters(cursor));
  }
  node.place = cursor.place();
  OCTET_ASSIGN_OR_RETURN(node.name, cursor.name("a function's name"));
  if (cursor.at("(")) {
    OCTET_ASSIGN_OR_RETURN(node.parameters, parse_parameters(cursor));
  }
  while (!cursor.at("{") && !cursor.at(";")) {
    OCTET_ASSIGN_OR_RETURN(Directive directive, parse_directive(cursor, node.is_entry));
    node.directives.push_back(std::move(directive));
  }
  if (cursor.take_if(";")) return node;
  OCTET_ASSIGN_OR_RETURN(node.body, parse_scope(cursor));
  return node;
}

}  // namespace octet::ptxsim::text
