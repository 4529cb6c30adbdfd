// SPDX-License-Identifier: Apache-2.0
// Declarations of registers, variables and parameters. PTX ISA 5.1 to 5.4, 7.1.
#include <algorithm>
#include <fmt/format.h>

#include "core/printable.h"
#include "ptxsim/text/parts.h"

namespace octet::ptxsim::text {

namespace {

// No address space is as large: sizes that follow from a declaration stay far from overflow.
constexpr uint64_t kMostArrayBytes = uint64_t{1} << 40;

Result<uint64_t> parse_align(Cursor& cursor) {
  OCTET_RETURN_IF_ERROR(cursor.expect(".align"));
  const Place begin = cursor.place();
  const std::string shown = cursor.peek().shown();
  OCTET_ASSIGN_OR_RETURN(const uint64_t align, cursor.natural("an alignment in bytes"));
  if (align == 0 || (align & (align - 1)) != 0) {
    return found_want(begin, shown, "an alignment that is a power of two");
  }
  return align;
}

Status parse_attribute(Cursor& cursor, Declaration& node) {
  OCTET_RETURN_IF_ERROR(cursor.expect(".attribute"));
  OCTET_RETURN_IF_ERROR(cursor.expect("("));
  OCTET_RETURN_IF_ERROR(cursor.expect(".managed"));
  node.is_managed = true;
  return cursor.expect(")");
}

// .ptr .global .align 16
Result<Pointee> parse_pointee(Cursor& cursor) {
  Pointee pointee;
  pointee.place = cursor.place();
  OCTET_RETURN_IF_ERROR(cursor.expect(".ptr"));
  if (cursor.at(Token::Kind::kDotted) && !cursor.at(".align")) {
    pointee.space = find_space(cursor.peek().text.substr(1));
    if (!pointee.space || pointee.space == Space::kReg || pointee.space == Space::kParam) {
      return cursor.refusal(".global, .const, .shared, .local or .align");
    }
    cursor.take();
  }
  if (cursor.at(".align")) {
    OCTET_ASSIGN_OR_RETURN(pointee.align_bytes, parse_align(cursor));
  }
  return pointee;
}

Status parse_type(Cursor& cursor, Declaration& node) {
  if (cursor.at(".v2") || cursor.at(".v4")) {
    node.vector_elems = cursor.at(".v2") ? 2 : 4;
    cursor.take();
  }
  const Token& token = cursor.peek();
  const auto type =
      token.kind == Token::Kind::kDotted ? find_type(token.text.substr(1)) : std::nullopt;
  if (!type) return cursor.refusal("a type");
  if (*type == Type::kPred && (node.space != Space::kReg || node.vector_elems != 1)) {
    return cursor.refusal("a type other than .pred, which a register alone has");
  }
  if (node.vector_elems * type_bits(*type) > 128) {
    return cursor.refusal("a type of which the vector has at most 128 bits");
  }
  node.type = *type;
  cursor.take();
  return {};
}

// What the names of a declaration share, in this order: .attribute(.managed) .align 8 .v2 .b32
Status parse_head(Cursor& cursor, Declaration& node) {
  if (cursor.at(".attribute")) OCTET_RETURN_IF_ERROR(parse_attribute(cursor, node));
  if (cursor.at(".align")) {
    OCTET_ASSIGN_OR_RETURN(node.align_bytes, parse_align(cursor));
  }
  return parse_type(cursor, node);
}

// [2][3], the first perhaps []
Status parse_dims(Cursor& cursor, Declaration& node) {
  uint64_t bytes = static_cast<uint64_t>(type_bits(node.type) * node.vector_elems) / 8;
  while (cursor.at("[")) {
    if (node.space == Space::kReg) return cursor.refusal("a register that is no array");
    cursor.take();
    const Place begin = cursor.place();
    uint64_t elems = 0;
    if (!cursor.at("]") || !node.dims.empty()) {
      OCTET_ASSIGN_OR_RETURN(elems, cursor.natural("a number of elements"));
      if (elems == 0) return error_at(begin, "found 0, want at least one element");
      if (elems > kMostArrayBytes / std::max<uint64_t>(bytes, 1)) {
        return error_at(
            begin, fmt::format("'{}' has more than {} bytes", shown(node.name), kMostArrayBytes));
      }
      bytes *= elems;
    }
    node.dims.push_back(elems);
    OCTET_RETURN_IF_ERROR(cursor.expect("]"));
  }
  return {};
}

// %r<5>
Status parse_count(Cursor& cursor, Declaration& node) {
  if (node.space != Space::kReg) return cursor.refusal("',' or ';': only registers are numbered");
  cursor.take();
  OCTET_ASSIGN_OR_RETURN(node.count, cursor.natural("a number of registers"));
  return cursor.expect(">");
}

Status parse_start_value(Cursor& cursor, Declaration& node) {
  if (node.space != Space::kGlobal && node.space != Space::kConst) {
    return cursor.refusal("',' or ';': only .global and .const have initialisers");
  }
  cursor.take();
  OCTET_ASSIGN_OR_RETURN(node.initializer, parse_initializer(cursor));
  return {};
}

Status parse_declared_name(Cursor& cursor, Declaration& node) {
  node.place = cursor.place();
  OCTET_ASSIGN_OR_RETURN(node.name, cursor.name("a name"));
  if (cursor.at("<")) return parse_count(cursor, node);
  OCTET_RETURN_IF_ERROR(parse_dims(cursor, node));
  if (cursor.at("=")) return parse_start_value(cursor, node);
  if (!node.dims.empty() && node.dims[0] == 0 && node.linkage != Linkage::kExtern) {
    return error_at(node.place, fmt::format("'{}' has no number of elements, want one where it is "
                                            "neither .extern nor initialised",
                                            shown(node.name)));
  }
  return {};
}

Result<Declaration> parse_parameter(Cursor& cursor) {
  Declaration node;
  if (!cursor.at(".param") && !cursor.at(".reg")) return cursor.refusal(".param or .reg");
  node.space = *find_space(cursor.take().text.substr(1));
  OCTET_RETURN_IF_ERROR(parse_head(cursor, node));
  if (cursor.at(".ptr") && node.space == Space::kParam) {
    OCTET_ASSIGN_OR_RETURN(node.pointee, parse_pointee(cursor));
  }
  node.place = cursor.place();
  if (cursor.at("_")) {
    node.name = std::string(cursor.take().text);
  } else {
    OCTET_ASSIGN_OR_RETURN(node.name, cursor.name("a parameter's name"));
  }
  OCTET_RETURN_IF_ERROR(parse_dims(cursor, node));
  return node;
}

}  // namespace

Result<std::vector<Declaration>> parse_declarations(Cursor& cursor, Linkage linkage) {
  Declaration head;
  head.linkage = linkage;
  const Token& token = cursor.peek();
  const auto space =
      token.kind == Token::Kind::kDotted ? find_space(token.text.substr(1)) : std::nullopt;
  if (!space) return cursor.refusal("a declaration's space");
  head.space = *space;
  cursor.take();
  OCTET_RETURN_IF_ERROR(parse_head(cursor, head));
  std::vector<Declaration> nodes;
  OCTET_RETURN_IF_ERROR(parse_list(cursor, [&]() -> Status {
    nodes.push_back(head);
    return parse_declared_name(cursor, nodes.back());
  }));
  OCTET_RETURN_IF_ERROR(cursor.expect(";"));
  return nodes;
}

Result<std::vector<Declaration>> parse_parameters(Cursor& cursor) {
  std::vector<Declaration> nodes;
  OCTET_RETURN_IF_ERROR(cursor.expect("("));
  if (cursor.take_if(")")) return nodes;
  OCTET_RETURN_IF_ERROR(parse_list(cursor, [&]() -> Status {
    OCTET_ASSIGN_OR_RETURN(Declaration node, parse_parameter(cursor));
    nodes.push_back(std::move(node));
    return {};
  }));
  OCTET_RETURN_IF_ERROR(cursor.expect(")"));
  return nodes;
}

}  // namespace octet::ptxsim::text
