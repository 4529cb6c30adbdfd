// SPDX-License-Identifier: Apache-2.0
// parse: a PTX module's text as a tree (tree.h).
//
// What is read is what the structs of tree.h show; a directive, a linkage, a type or a form that they don't is an error, nothing is
// skipped. What an instruction means, and whether a name is declared, is not asked.
// Errors: kInvalidArgument, "line 12, column 5: found ';', want a name"; the first one found. Columns are bytes.
// Limits: kMostBytes of text, kMostScopes scopes and kMostLists lists of an initialiser within each other.
// Source: PTX ISA 4 (syntax), 5 (declarations), 6 (operands), 7.1 (functions), 11 (directives).
#pragma once

#include <string_view>

#include "ptxsim/text/tree.h"

namespace octet::ptxsim::text {

constexpr int kMostScopes = 64;
constexpr int kMostLists = 16;

Result<Module> parse(std::string_view source);

}  // namespace octet::ptxsim::text
