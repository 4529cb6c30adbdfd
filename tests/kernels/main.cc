// SPDX-License-Identifier: Apache-2.0
// octet_kernels_test [--want=N] [GoogleTest's options]: says which rows of cpu/isa.inc this machine runs and which it skips,
// then runs the tests. Exit 1 too where fewer than N rows run.
#include <charconv>
#include <cstdio>
#include <gtest/gtest.h>
#include <string_view>

#include "cpu/panel_dot.h"

namespace {

// How many rows this machine runs.
int print_sets() {
  int here = 0;
  for (const octet::cpu::IsaInfo& isa : octet::cpu::isas()) {
    const bool runs = isa.is_here();
    here += runs ? 1 : 0;
    const std::string_view name = isa.runs_on;
    std::printf("%s %.*s\n", runs ? "runs:   " : "skipped:", static_cast<int>(name.size()),
                name.data());
  }
  return here;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view kWant = "--want=";
  int want = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg.starts_with(kWant)) std::from_chars(arg.data() + kWant.size(), arg.end(), want);
  }
  const int here = print_sets();
  if (here < want) {
    std::printf("%d sets run here, want %d\n", here, want);
    return 1;
  }
  return RUN_ALL_TESTS();
}
