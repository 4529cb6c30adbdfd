// SPDX-License-Identifier: Apache-2.0
// What the tests of this folder write their texts with.
#pragma once

#include <gtest/gtest.h>
#include <string>
#include <string_view>
#include <variant>

#include "ptxsim/text/parse.h"
#include "ptxsim/text/print.h"

namespace octet::ptxsim::text {

// The text in memory of exactly its bytes, so that the address sanitizer sees a read beyond.
inline Result<Module> parse_exactly(std::string_view source) {
  const std::vector<char> bytes(source.begin(), source.end());
  return parse({bytes.data(), bytes.size()});
}

// Three lines that every module begins with: what follows stands on line 4.
inline std::string module_text(const std::string& items) {
  return ".version 9.0\n.target sm_90a\n.address_size 64\n" + items;
}
// The statements stand on line 5.
inline std::string body_text(const std::string& statements) {
  return module_text(".entry k() {\n" + statements + "\n}\n");
}

inline std::string error_of(const std::string& source) {
  const auto module = parse_exactly(source);
  if (module.ok()) return "";
  EXPECT_EQ(module.status().code, Code::kInvalidArgument);
  return module.status().why;
}

// The tree of `source`; that of what is printed of it is the same.
inline Module tree_of(const std::string& source) {
  auto module = parse_exactly(source);
  if (!module.ok()) {
    ADD_FAILURE() << module.status().why << "\n" << source;
    return {};
  }
  const std::string printed = print(*module);
  const auto again = parse_exactly(printed);
  if (!again.ok()) {
    ADD_FAILURE() << again.status().why << "\n" << printed;
  } else {
    EXPECT_TRUE(*again == *module) << printed;
    EXPECT_EQ(print(*again), printed);
  }
  return std::move(module).value();
}

template <class Node>
Node item_of(const std::string& items, size_t index = 0) {
  const Module module = tree_of(module_text(items));
  const Node* node =
      index < module.items.size() ? std::get_if<Node>(&module.items[index]) : nullptr;
  if (node == nullptr) ADD_FAILURE() << "no such item in\n" << items;
  return node == nullptr ? Node{} : *node;
}

template <class Node>
Node statement_of(const std::string& statements, size_t index = 0) {
  const Function function = item_of<Function>(".entry k() {\n" + statements + "\n}\n");
  const Node* node = function.body && index < function.body->statements.size()
                         ? std::get_if<Node>(&function.body->statements[index].node)
                         : nullptr;
  if (node == nullptr) ADD_FAILURE() << "no such statement in\n" << statements;
  return node == nullptr ? Node{} : *node;
}

}  // namespace octet::ptxsim::text
