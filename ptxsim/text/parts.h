// SPDX-License-Identifier: Apache-2.0
// The parts of the parser, each for the tokens of one node: from the node's first token to behind its last. Only for this folder's
// parse*.cc.
#pragma once

#include <string>
#include <vector>

#include "ptxsim/text/cursor.h"
#include "ptxsim/text/tree.h"

namespace octet::ptxsim::text {

// parse_debug.cc: .file, .section, .loc, .pragma
Result<File> parse_file(Cursor& cursor);
Result<Section> parse_section(Cursor& cursor);
Result<Location> parse_location(Cursor& cursor);
Result<Pragma> parse_pragma(Cursor& cursor);

// parse_declaration.cc
// A space, .align, a type, names with arrays and initialisers, `;`: a node for each name.
Result<std::vector<Declaration>> parse_declarations(Cursor& cursor, Linkage linkage);
// ( .param .b32 a, .param .align 8 .b8 b[16] ), which may be empty.
Result<std::vector<Declaration>> parse_parameters(Cursor& cursor);

// parse_initializer.cc: what stands behind the `=`.
Result<Initializer> parse_initializer(Cursor& cursor);

// parse_instruction.cc: an optional guard, an opcode, operands, `;`.
Result<Instruction> parse_instruction(Cursor& cursor);

// parse_function.cc: from .entry or .func on.
Result<Function> parse_function(Cursor& cursor, Linkage linkage);

// parse_scope.cc: from { to }.
Result<Scope> parse_scope(Cursor& cursor);

// a, b, c : what `item` reads, at least once.
template <class Item>
Status parse_list(Cursor& cursor, Item item) {
  do {
    OCTET_RETURN_IF_ERROR(item());
  } while (cursor.take_if(","));
  return {};
}

}  // namespace octet::ptxsim::text
