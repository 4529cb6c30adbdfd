// SPDX-License-Identifier: Apache-2.0
// Tests of kernels in the simulator: PROGRAM [--gtest_...] FILE.ptx ...
#include <cstdio>
#include <fstream>
#include <iterator>

#include "ptxsim/text/parse.h"
#include "sim_device.h"

namespace octet::sim {
namespace {

using namespace ptxsim;

std::vector<text::Module>& modules() {
  static std::vector<text::Module> all;
  return all;
}

bool load(const char* path) {
  std::ifstream in(path, std::ios::binary);
  const std::string source{std::istreambuf_iterator<char>(in), {}};
  auto module = text::parse(source);
  if (!module.ok()) {
    std::printf("%s: %s\n", path, module.status().why.c_str());
    return false;
  }
  modules().push_back(std::move(module).value());
  return true;
}

// Bodies that have this part of a name.
std::vector<std::pair<const text::Module*, const text::Function*>> similar(
    const std::string& part) {
  std::vector<std::pair<const text::Module*, const text::Function*>> found;
  for (const text::Module& module : modules()) {
    for (const auto& item : module.items) {
      const auto* function = std::get_if<text::Function>(&item);
      if (function == nullptr || !function->is_entry || !function->body) continue;
      if (function->name.find(part) != std::string::npos) found.emplace_back(&module, function);
    }
  }
  return found;
}

}  // namespace

Result<const machine::Program*> find_kernel(const std::string& part_of_name) {
  static std::map<std::string, machine::Program> decoded;
  if (const auto at = decoded.find(part_of_name); at != decoded.end()) return &at->second;
  const auto found = similar(part_of_name);
  if (found.size() != 1) {
    std::string why =
        std::to_string(found.size()) + " kernels have '" + part_of_name + "' in their names";
    for (const auto& [module, function] : found) why += "\n  " + function->name;
    return invalid_argument(why);
  }
  auto program = insn::decode(*found[0].first, found[0].second->name);
  if (!program.ok()) return program.status();
  return &(decoded[part_of_name] = std::move(program).value());
}

std::vector<machine::Settings> all_times(uint64_t seeds) {
  std::vector<machine::Settings> all;
  for (const machine::Time time :
       {machine::Time::kEager, machine::Time::kRandom, machine::Time::kLate}) {
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      machine::Settings settings;
      settings.time = time;
      settings.seed = seed;
      all.push_back(settings);
    }
  }
  return all;
}

std::string shown(const machine::Settings& settings) {
  const char* times[] = {"eager", "random", "late"};
  return std::string(times[int(settings.time)]) + ", seed " + std::to_string(settings.seed);
}

}  // namespace octet::sim

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (!octet::sim::load(argv[i])) return 1;
  }
  return argc < 2 ? 1 : RUN_ALL_TESTS();
}
