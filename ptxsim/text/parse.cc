// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/text/parse.h"

#include <charconv>

#include "ptxsim/text/parts.h"

namespace octet::ptxsim::text {

namespace {

// .version 9.0, which the lexer takes for a number.
Status parse_version(Cursor& cursor, Module& module) {
  OCTET_RETURN_IF_ERROR(cursor.expect(".version"));
  const std::string_view text = cursor.at(Token::Kind::kNumber) ? cursor.peek().text : "";
  const char* end = text.data() + text.size();
  const auto major = std::from_chars(text.data(), end, module.version_major);
  if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') {
    return cursor.refusal("a version such as 9.0");
  }
  const auto minor = std::from_chars(major.ptr + 1, end, module.version_minor);
  if (minor.ec != std::errc() || minor.ptr != end) return cursor.refusal("a version such as 9.0");
  cursor.take();
  return {};
}

Status parse_target(Cursor& cursor, Module& module) {
  OCTET_RETURN_IF_ERROR(cursor.expect(".target"));
  return parse_list(cursor, [&]() -> Status {
    OCTET_ASSIGN_OR_RETURN(std::string target, cursor.name("a target such as sm_90a"));
    module.targets.push_back(std::move(target));
    return {};
  });
}

Status parse_address_size(Cursor& cursor, Module& module) {
  if (!cursor.take_if(".address_size")) return {};
  if (!cursor.at("32") && !cursor.at("64")) return cursor.refusal("32 or 64");
  module.address_bits = cursor.take().text == "32" ? 32 : 64;
  return {};
}

Linkage take_linkage(Cursor& cursor) {
  for (const Linkage linkage :
       {Linkage::kExtern, Linkage::kVisible, Linkage::kWeak, Linkage::kCommon}) {
    const Token& token = cursor.peek();
    if (token.kind != Token::Kind::kDotted || token.text.substr(1) != linkage_name(linkage))
      continue;
    cursor.take();
    return linkage;
  }
  return Linkage::kNone;
}

template <class Node>
Status append(Module& module, Result<Node> node) {
  if (!node.ok()) return node.status();
  module.items.emplace_back(std::move(node).value());
  return {};
}

Status parse_item(Cursor& cursor, Module& module) {
  if (cursor.at(".file")) return append(module, parse_file(cursor));
  if (cursor.at(".section")) return append(module, parse_section(cursor));
  if (cursor.at(".pragma")) return append(module, parse_pragma(cursor));
  const Linkage linkage = take_linkage(cursor);
  if (cursor.at(".entry") || cursor.at(".func"))
    return append(module, parse_function(cursor, linkage));
  if (!cursor.at(".global") && !cursor.at(".const") && !cursor.at(".shared")) {
    return cursor.refusal(linkage == Linkage::kNone
                              ? "an item of a module: a linkage, .entry, .func, .global, .const, "
                                ".shared, .file, .section or .pragma"
                              : ".entry, .func, .global, .const or .shared");
  }
  OCTET_ASSIGN_OR_RETURN(auto declarations, parse_declarations(cursor, linkage));
  for (Declaration& node : declarations) module.items.emplace_back(std::move(node));
  return {};
}

}  // namespace

Result<Module> parse(std::string_view source) {
  OCTET_ASSIGN_OR_RETURN(std::vector<Token> tokens, lex(source));
  Cursor cursor(std::move(tokens));
  Module module;
  OCTET_RETURN_IF_ERROR(parse_version(cursor, module));
  OCTET_RETURN_IF_ERROR(parse_target(cursor, module));
  OCTET_RETURN_IF_ERROR(parse_address_size(cursor, module));
  while (!cursor.at(Token::Kind::kEnd)) OCTET_RETURN_IF_ERROR(parse_item(cursor, module));
  return module;
}

}  // namespace octet::ptxsim::text
