// SPDX-License-Identifier: Apache-2.0
// Initialisers. PTX ISA 5.4.4.
#include <fmt/format.h>

#include "ptxsim/text/parse.h"
#include "ptxsim/text/parts.h"

namespace octet::ptxsim::text {

namespace {

// symbol+4, generic(symbol)+4
Status parse_address(Cursor& cursor, Initializer& node) {
  node.kind = Initializer::Kind::kAddress;
  OCTET_ASSIGN_OR_RETURN(node.symbol, cursor.name("a number, a symbol or '{'"));
  if (node.symbol == "generic" && cursor.take_if("(")) {
    node.is_generic = true;
    OCTET_ASSIGN_OR_RETURN(node.symbol, cursor.name("a symbol"));
    OCTET_RETURN_IF_ERROR(cursor.expect(")"));
  }
  OCTET_ASSIGN_OR_RETURN(node.offset, cursor.offset());
  return {};
}

// 0xFF00(symbol): exactly one byte of the address.
Status parse_masked(Cursor& cursor, Initializer& node) {
  const Place begin = cursor.place();
  const std::string shown = cursor.peek().shown();
  OCTET_ASSIGN_OR_RETURN(node.mask, cursor.natural("a mask"));
  uint64_t byte = node.mask;
  while (byte != 0 && byte % 256 == 0) byte /= 256;
  if (byte != 0xFF) return found_want(begin, shown, "a mask of one byte: 0xFF, 0xFF00, ...");
  OCTET_RETURN_IF_ERROR(cursor.expect("("));
  OCTET_RETURN_IF_ERROR(parse_address(cursor, node));
  return cursor.expect(")");
}

Result<Initializer> parse_nested(Cursor& cursor, int depth) {
  Initializer node;
  node.place = cursor.place();
  if (cursor.at("{")) {
    if (depth == kMostLists)
      return error_at(node.place, fmt::format("more than {} lists within each other", kMostLists));
    cursor.take();
    node.kind = Initializer::Kind::kList;
    if (cursor.take_if("}")) return node;
    OCTET_RETURN_IF_ERROR(parse_list(cursor, [&]() -> Status {
      OCTET_ASSIGN_OR_RETURN(Initializer item, parse_nested(cursor, depth + 1));
      node.items.push_back(std::move(item));
      return {};
    }));
    OCTET_RETURN_IF_ERROR(cursor.expect("}"));
    return node;
  }
  if (cursor.at(Token::Kind::kNumber) && cursor.peek(1).is("(")) {
    OCTET_RETURN_IF_ERROR(parse_masked(cursor, node));
  } else if (cursor.at(Token::Kind::kNumber) || cursor.at("-")) {
    OCTET_ASSIGN_OR_RETURN(node.number, cursor.number("a number"));
  } else {
    OCTET_RETURN_IF_ERROR(parse_address(cursor, node));
  }
  return node;
}

}  // namespace

Result<Initializer> parse_initializer(Cursor& cursor) { return parse_nested(cursor, 0); }

}  // namespace octet::ptxsim::text
