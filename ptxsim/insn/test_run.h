// SPDX-License-Identifier: Apache-2.0
// What the tests of this folder run their texts with: a kernel whose parameters are one buffer in and one buffer out.
#pragma once

#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "ptxsim/insn/decode.h"
#include "ptxsim/machine/machine.h"
#include "ptxsim/text/parse.h"

namespace octet::ptxsim::insn {

// `k(in, out)`; statements from line 6 on, with what registers the tests use declared. %in and %out are the buffers.
inline std::string kernel_text(const std::string& statements, const std::string& before = "") {
  return ".version 9.0\n.target sm_100a\n.address_size 64\n" + before +
         ".entry k(.param .u64 p_in, .param .u64 p_out) { .reg .pred %p<8>, q; .reg .b8 %rc<4>; "
         ".reg .b16 %rs<16>; .reg .b32 %r<64>; "
         ".reg .f32 %f<64>; .reg .f64 %fd<8>; .reg .b64 %rd<32>, %in, %out, %own; .reg .b128 "
         "%rq<4>;\n"
         "ld.param.u64 %in, [p_in]; ld.param.u64 %out, [p_out];\n" +
         statements + "\n}\n";
}

// Where each thread's 64 bytes of %out begin: %own.
inline const std::string kOwn =
    "mov.u32 %r63, %tid.x; mul.wide.u32 %rd31, %r63, 64; add.s64 %own, %out, %rd31;\n";

struct Ran {
  Status status;
  std::vector<uint8_t> out;
  machine::Counts counts;
  std::vector<machine::GridCounts> grids;
  template <class T>
  T at(size_t index) const {
    T value{};
    if ((index + 1) * sizeof(T) <= out.size())
      std::memcpy(&value, out.data() + index * sizeof(T), sizeof(T));
    return value;
  }
};

inline machine::Settings strict_settings() {
  machine::Settings settings;
  settings.refuses_unset_shared_reads = true;
  return settings;
}

struct RunOptions {
  machine::Settings settings = strict_settings();
  machine::Dim3 grid = {}, block = {32}, cluster = {};
  uint32_t dynamic_shared_bytes = 0;
  size_t out_bytes = 2048;
  std::vector<uint8_t> in = std::vector<uint8_t>(256, 0);
};

inline Result<machine::Program> decoded(const std::string& text) {
  const auto module = text::parse(text);
  if (!module.ok()) return module.status();
  return decode(*module, "k");
}

inline Ran run_text(const std::string& text, const RunOptions& options = {}) {
  const auto program = decoded(text);
  if (!program.ok()) return {program.status(), {}, {}, {}};
  machine::Machine machine(options.settings);
  const uint64_t in = machine.memory().allocate("in", options.in.size(), true);
  EXPECT_TRUE(machine.memory().write(in, options.in).ok());
  const uint64_t out = machine.memory().allocate("out", options.out_bytes);
  std::vector<uint8_t> parameters(16);
  std::memcpy(parameters.data(), &in, 8);
  std::memcpy(parameters.data() + 8, &out, 8);
  Status status =
      machine.run(machine::Launch{&*program, options.grid, options.block, options.cluster,
                                  options.dynamic_shared_bytes, parameters, false});
  return {status, *machine.memory().read(out, options.out_bytes), machine.counts(),
          machine.grid_counts()};
}

inline Ran run_statements(const std::string& statements, const RunOptions& options = {}) {
  return run_text(kernel_text(statements), options);
}

// The 32 bits (64 bits) that one thread's `statements` leave in %r0 (%rd0).
inline uint32_t word_of(const std::string& statements) {
  const Ran ran = run_statements(statements + "\nst.global.u32 [%out], %r0;", {.block = {1}});
  EXPECT_TRUE(ran.status.ok()) << ran.status.why << "\n" << statements;
  return ran.at<uint32_t>(0);
}
inline uint64_t long_of(const std::string& statements) {
  const Ran ran = run_statements(statements + "\nst.global.u64 [%out], %rd0;", {.block = {1}});
  EXPECT_TRUE(ran.status.ok()) << ran.status.why << "\n" << statements;
  return ran.at<uint64_t>(0);
}

inline std::string error_of(const std::string& statements, const RunOptions& options = {}) {
  return run_statements(statements, options).status.why;
}

}  // namespace octet::ptxsim::insn
