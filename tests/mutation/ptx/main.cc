// SPDX-License-Identifier: Apache-2.0
// ptx_mutate FILE.ptx                 lists the mutants of its kernels, one a line: name, class, source line, instruction, apart by tabs
// ptx_mutate FILE.ptx OUT.ptx         prints the module as it is
// ptx_mutate FILE.ptx OUT.ptx NAME    prints the mutant of that name
// Exit 0, 1 failed, 2 misused.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "mutants.h"
#include "ptxsim/text/parse.h"
#include "ptxsim/text/print.h"

namespace {

using namespace octet;  // NOLINT(google-build-using-namespace)

int fail(const std::string& why) {
  std::fprintf(stderr, "ptx_mutate: %s\n", why.c_str());
  return 1;
}

int list(const ptxsim::text::Module& module) {
  for (const mutation::Mutant& m : mutation::find_mutants(module))
    std::printf("%s\t%s\t%s\t%s\n", m.name.c_str(), m.kind.c_str(), m.where.c_str(),
                m.text.c_str());
  return 0;
}

int write(const ptxsim::text::Module& module, const char* path) {
  std::ofstream out(path, std::ios::binary);
  out << ptxsim::text::print(module);
  return out.flush() ? 0 : fail(std::string(path) + ": cannot be written");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    std::fprintf(stderr, "ptx_mutate FILE.ptx [OUT.ptx [NAME]]\n");
    return 2;
  }
  std::ifstream in(argv[1], std::ios::binary);
  const std::string source{std::istreambuf_iterator<char>(in), {}};
  auto module = ptxsim::text::parse(source);
  if (!module.ok()) return fail(std::string(argv[1]) + ": " + module.status().why);
  if (argc == 2) return list(*module);
  if (argc == 3) return write(*module, argv[2]);
  const auto all = mutation::find_mutants(*module);
  const std::string name = argv[3];
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const auto& m) { return m.name == name; });
  if (at == all.end()) return fail("no mutant '" + name + "'");
  return write(mutation::mutated(std::move(module).value(), *at), argv[2]);
}
