// SPDX-License-Identifier: Apache-2.0
#include "reads.h"

#include <cstdio>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <map>
#include <variant>

#include "ptxsim/insn/decode.h"
#include "ptxsim/text/parse.h"

namespace octet::cross {
namespace {

using namespace ptxsim;

constexpr int kMostRefusals = 10000;

// Makes the line empty of which the reason tells: "line 12, column 5: ...". False: it tells of none.
bool leave_out(std::string& source, const std::string& why) {
  int line = 0;
  if (std::sscanf(why.c_str(), "line %d,", &line) != 1 || line < 1) return false;
  size_t begin = 0;
  for (int i = 1; i < line; ++i) {
    begin = source.find('\n', begin) + 1;
    if (begin == 0) return false;
  }
  const size_t end = std::min(source.find('\n', begin), source.size());
  if (begin == end) return false;
  source.erase(begin, end - begin);
  return true;
}

Result<size_t> decode_all(const std::string& source) {
  OCTET_ASSIGN_OR_RETURN(const text::Module module, text::parse(source));
  size_t instructions = 0;
  for (const auto& item : module.items) {
    const auto* function = std::get_if<text::Function>(&item);
    if (function == nullptr || !function->is_entry || !function->body) continue;
    OCTET_ASSIGN_OR_RETURN(const machine::Program program, insn::decode(module, function->name));
    instructions += program.code.size();
  }
  return instructions;
}

}  // namespace

Status report_decoding(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return io_error(path + ": cannot be read");
  std::string source{std::istreambuf_iterator<char>(in), {}};
  std::map<std::string, int> refused;
  for (int i = 0; i < kMostRefusals; ++i) {
    const auto instructions = decode_all(source);
    if (instructions.ok()) {
      int all = 0;
      for (const auto& [why, count] : refused) {
        fmt::print("{} times: {}\n", count, why);
        all += count;
      }
      fmt::print("{}: {} instructions are known, {} are not\n", path, *instructions, all);
      return refused.empty() ? Status{} : unsupported(path + ": not all of it is known");
    }
    const std::string& why = instructions.status().why;
    if (!leave_out(source, why)) return instructions.status();
    ++refused[why.substr(std::min(why.find(": "), why.size() - 2) + 2)];
  }
  return unsupported(path + ": too much of it is not known");
}

}  // namespace octet::cross
