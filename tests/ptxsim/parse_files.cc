// SPDX-License-Identifier: Apache-2.0
// Files of PTX are read whole, and what is printed of their trees is read as the same trees: parse_files FILE...
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <variant>

#include "ptxsim/text/parse.h"
#include "ptxsim/text/print.h"

namespace {

namespace text = octet::ptxsim::text;

size_t num_instructions(const text::Scope& scope) {
  size_t n = 0;
  for (const text::Statement& statement : scope.statements) {
    n += std::holds_alternative<text::Instruction>(statement.node);
    if (const auto* inner = std::get_if<text::Scope>(&statement.node))
      n += num_instructions(*inner);
  }
  return n;
}

// Functions with a body.
size_t report(const char* path, const text::Module& module) {
  size_t bodies = 0, instructions = 0;
  for (const auto& item : module.items) {
    const auto* function = std::get_if<text::Function>(&item);
    if (function == nullptr || !function->body) continue;
    ++bodies;
    instructions += num_instructions(*function->body);
  }
  std::printf("%s: %zu functions, %zu instructions\n", path, bodies, instructions);
  return bodies;
}

bool passes(const char* path) {
  std::ifstream in(path, std::ios::binary);
  const std::string source{std::istreambuf_iterator<char>(in), {}};
  const auto module = text::parse(source);
  if (!module.ok()) {
    std::printf("%s: %s\n", path, module.status().why.c_str());
    return false;
  }
  const auto again = text::parse(text::print(*module));
  if (!again.ok() || !(*again == *module)) {
    std::printf("%s: printed and read again: %s\n", path,
                again.ok() ? "another tree" : again.status().why.c_str());
    return false;
  }
  return report(path, *module) > 0;
}

}  // namespace

int main(int argc, char** argv) {
  int failed = 0;
  for (int i = 1; i < argc; ++i) failed += passes(argv[i]) ? 0 : 1;
  return argc < 2 || failed != 0 ? 1 : 0;
}
