// SPDX-License-Identifier: Apache-2.0
// Every kernel of files of PTX is decoded: decode_files FILE...
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <variant>

#include "ptxsim/insn/decode.h"
#include "ptxsim/text/parse.h"

namespace {

using namespace octet;
using namespace octet::ptxsim;

bool decodes(const text::Module& module, const text::Function& function) {
  const auto program = insn::decode(module, function.name);
  if (!program.ok()) {
    std::printf("%s: %s\n", function.name.c_str(), program.status().why.c_str());
    return false;
  }
  std::printf("%s: %zu instructions, %u KiB of registers a warp, %u bytes of shared memory\n",
              function.name.c_str(), program->code.size(), program->num_words / 256,
              program->static_shared_bytes);
  return true;
}

bool passes(const char* path) {
  std::ifstream in(path, std::ios::binary);
  const std::string source{std::istreambuf_iterator<char>(in), {}};
  const auto module = text::parse(source);
  if (!module.ok()) {
    std::printf("%s: %s\n", path, module.status().why.c_str());
    return false;
  }
  bool all = true;
  for (const auto& item : module->items) {
    const auto* function = std::get_if<text::Function>(&item);
    if (function != nullptr && function->is_entry && function->body)
      all &= decodes(*module, *function);
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  int failed = 0;
  for (int i = 1; i < argc; ++i) failed += passes(argv[i]) ? 0 : 1;
  return argc < 2 || failed != 0 ? 1 : 0;
}
