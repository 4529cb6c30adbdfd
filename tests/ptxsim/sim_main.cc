// SPDX-License-Identifier: Apache-2.0
// Tests of kernels in the simulator: PROGRAM [--gtest_...] FILE.ptx ..., or the files and one setting by the environment (sim_settings.h).
#include <cstdio>
#include <fstream>
#include <iterator>

#include "ptxsim/text/parse.h"
#include "sim_device.h"
#include "sim_settings.h"

namespace octet::sim {
namespace {

using namespace ptxsim;

std::vector<text::Module>& modules() {
  static std::vector<text::Module> all;
  return all;
}

bool load(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string source{std::istreambuf_iterator<char>(in), {}};
  auto module = text::parse(source);
  if (!module.ok()) {
    std::printf("%s: %s\n", path.c_str(), module.status().why.c_str());
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
  machine::Settings one;
  if (take_environment(one)) return {one};
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
  std::vector<std::string> files(argv + 1, argv + argc);
  if (files.empty()) files = octet::sim::ptx_of_environment();
  for (const std::string& file : files) {
    if (!octet::sim::load(file)) return 1;
  }
  return files.empty() ? 1 : RUN_ALL_TESTS();
}
