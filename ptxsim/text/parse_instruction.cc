// SPDX-License-Identifier: Apache-2.0
// Guards, opcodes, operands. PTX ISA 4.3.2, 6.4, 9.3. Operands hold each other to the depth of [a, {b}] and no deeper.
#include "ptxsim/text/parts.h"

namespace octet::ptxsim::text {

namespace {

using Kind = Operand::Kind;

Operand operand_of(Kind kind, Place place) {
  Operand operand;
  operand.kind = kind;
  operand.place = place;
  return operand;
}

// %r1, %tid.x, symbol+8
Result<Operand> parse_name(Cursor& cursor) {
  Operand operand = operand_of(Kind::kName, cursor.place());
  OCTET_ASSIGN_OR_RETURN(operand.name, cursor.name("an operand"));
  if (cursor.at(Token::Kind::kDotted)) {
    const std::string_view component = cursor.peek().text.substr(1);
    if (component.size() != 1 ||
        std::string_view("xyzwrgba").find(component) == std::string::npos) {
      return cursor.refusal("a component: .x .y .z .w .r .g .b .a");
    }
    operand.component = std::string(component);
    cursor.take();
  }
  OCTET_ASSIGN_OR_RETURN(operand.offset, cursor.offset());
  return operand;
}

Operand parse_sink(Cursor& cursor) {
  const Place place = cursor.place();
  cursor.take();
  return operand_of(Kind::kSink, place);
}

Result<Operand> parse_scalar(Cursor& cursor) {
  if (cursor.at("_")) return parse_sink(cursor);
  if (!cursor.at(Token::Kind::kNumber) && !cursor.at("-")) return parse_name(cursor);
  Operand operand = operand_of(Kind::kNumber, cursor.place());
  OCTET_ASSIGN_OR_RETURN(operand.number, cursor.number("a number"));
  return operand;
}

// What stands between `open` and `close`, items that `item` reads; empty only where may_be_empty.
template <class Item>
Result<Operand> parse_group(Cursor& cursor, Kind kind, std::string_view close, bool may_be_empty,
                            Item item) {
  Operand operand = operand_of(kind, cursor.place());
  cursor.take();
  if (may_be_empty && cursor.take_if(close)) return operand;
  OCTET_RETURN_IF_ERROR(parse_list(cursor, [&]() -> Status {
    OCTET_ASSIGN_OR_RETURN(Operand part, item(cursor));
    operand.parts.push_back(std::move(part));
    return {};
  }));
  OCTET_RETURN_IF_ERROR(cursor.expect(close));
  return operand;
}

Result<Operand> parse_vector(Cursor& cursor) {
  return parse_group(cursor, Kind::kVector, "}", false, parse_scalar);
}

Result<Operand> parse_address_part(Cursor& cursor) {
  if (cursor.at("{")) return parse_vector(cursor);
  if (cursor.at("_")) return cursor.refusal("an address");
  return parse_scalar(cursor);
}

// a|b, where a has been read.
Result<Operand> parse_pair(Cursor& cursor, Operand first) {
  if (first.kind == Kind::kNumber || first.offset != 0 || first.is_negated) {
    return cursor.refusal("',' or ';': a pair is of names");
  }
  cursor.take();
  Operand pair = operand_of(Kind::kPair, first.place);
  const Place second_place = cursor.place();
  OCTET_ASSIGN_OR_RETURN(Operand second, parse_scalar(cursor));
  if (second.kind == Kind::kNumber || second.offset != 0) {
    return found_want(second_place, "a number", "a name or '_'");
  }
  pair.parts.push_back(std::move(first));
  pair.parts.push_back(std::move(second));
  return pair;
}

Result<Operand> parse_operand(Cursor& cursor) {
  if (cursor.at("{")) return parse_vector(cursor);
  if (cursor.at("[")) return parse_group(cursor, Kind::kAddress, "]", false, parse_address_part);
  if (cursor.at("(")) return parse_group(cursor, Kind::kList, ")", true, parse_scalar);
  const Place begin = cursor.place();
  if (cursor.take_if("!")) {
    OCTET_ASSIGN_OR_RETURN(Operand operand, parse_name(cursor));
    operand.place = begin;
    operand.is_negated = true;
    return operand;
  }
  OCTET_ASSIGN_OR_RETURN(Operand operand, parse_scalar(cursor));
  return cursor.at("|") ? parse_pair(cursor, std::move(operand)) : std::move(operand);
}

Result<Guard> parse_guard(Cursor& cursor) {
  Guard guard;
  guard.place = cursor.place();
  cursor.take();
  guard.is_negated = cursor.take_if("!");
  OCTET_ASSIGN_OR_RETURN(guard.name, cursor.name("a predicate"));
  return guard;
}

}  // namespace

Result<Instruction> parse_instruction(Cursor& cursor) {
  Instruction node;
  if (cursor.at("@")) {
    OCTET_ASSIGN_OR_RETURN(node.guard, parse_guard(cursor));
  }
  node.place = cursor.place();
  OCTET_ASSIGN_OR_RETURN(node.opcode, cursor.name("an opcode"));
  while (cursor.at(Token::Kind::kDotted)) {
    node.modifiers.emplace_back(cursor.take().text.substr(1));
  }
  if (!cursor.at(";")) {
    OCTET_RETURN_IF_ERROR(parse_list(cursor, [&]() -> Status {
      OCTET_ASSIGN_OR_RETURN(Operand operand, parse_operand(cursor));
      node.operands.push_back(std::move(operand));
      return {};
    }));
  }
  OCTET_RETURN_IF_ERROR(cursor.expect(";"));
  return node;
}

}  // namespace octet::ptxsim::text
