// SPDX-License-Identifier: Apache-2.0
// What the tests of the tensor families run their kernels with.
#pragma once

#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "ptxsim/insn/decode.h"
#include "ptxsim/text/parse.h"

namespace octet::ptxsim::insn {

constexpr machine::Time kTimes[] = {machine::Time::kEager, machine::Time::kRandom,
                                    machine::Time::kLate};

// A kernel `k` of one block; its parameters are 64-bit addresses of buffers.
class TensorTest {
 public:
  // Shared memory `s` of `shared_bytes`, parameters p0, p1, ...; `body` stands in the braces.
  TensorTest(std::string target, uint32_t threads, uint32_t shared_bytes, int num_parameters,
             const std::string& body)
      : threads_(threads) {
    source_ = ".version 9.0\n.target " + target + "\n.address_size 64\n.entry k(";
    for (int i = 0; i < num_parameters; ++i)
      source_ += (i == 0 ? "" : ", ") + std::string(".param .u64 p") + std::to_string(i);
    source_ += ") {\n.shared .align 1024 .b8 s[" + std::to_string(shared_bytes) + "];\n" + body +
               "\nret;\n}\n";
  }

  // Bytes that the kernel reads, or as many unset bytes that it writes: the next parameter.
  void input(std::vector<uint8_t> bytes) { buffers_.push_back({std::move(bytes), true}); }
  void both(std::vector<uint8_t> bytes) {
    buffers_.push_back({std::move(bytes), true, nullptr, true});
  }
  void output(size_t bytes) { buffers_.push_back({std::vector<uint8_t>(bytes), false}); }
  // A parameter whose bytes are made once the buffers' addresses are known.
  using Make = std::vector<uint8_t> (*)(const std::vector<uint64_t>&);
  void made(Make make) { buffers_.push_back({{}, true, make}); }

  Status run(machine::Settings settings) {
    settings.refuses_unset_shared_reads = true;
    OCTET_ASSIGN_OR_RETURN(const text::Module module, text::parse(source_));
    OCTET_ASSIGN_OR_RETURN(const machine::Program program, decode(module, "k"));
    machine::Machine machine(settings);
    std::vector<uint64_t> addresses;
    for (const Buffer& buffer : buffers_) {
      const std::vector<uint8_t> bytes = buffer.make ? buffer.make(addresses) : buffer.bytes;
      const std::string name = "p" + std::to_string(addresses.size());
      addresses.push_back(machine.memory().allocate(name, bytes.size()));
      if (buffer.is_input) OCTET_RETURN_IF_ERROR(machine.memory().write(addresses.back(), bytes));
    }
    machine::Launch launch;
    launch.program = &program;
    launch.block = {threads_, 1, 1};
    launch.parameters.resize(8 * addresses.size());
    if (!addresses.empty())
      std::memcpy(launch.parameters.data(), addresses.data(), launch.parameters.size());
    OCTET_RETURN_IF_ERROR(machine.run(launch));
    for (size_t i = 0; i < buffers_.size(); ++i) {
      if (buffers_[i].is_input && !buffers_[i].is_read_back) continue;
      OCTET_ASSIGN_OR_RETURN(buffers_[i].bytes,
                             machine.memory().read(addresses[i], buffers_[i].bytes.size()));
    }
    return {};
  }
  Status run(machine::Time time, uint64_t seed) {
    machine::Settings settings;
    settings.time = time;
    settings.seed = seed;
    return run(settings);
  }

  template <class T>
  std::vector<T> values(size_t i) const {
    std::vector<T> out(buffers_[i].bytes.size() / sizeof(T));
    std::memcpy(out.data(), buffers_[i].bytes.data(), out.size() * sizeof(T));
    return out;
  }
  // The text with one piece of it replaced: what a test breaks.
  TensorTest with(const std::string& find, const std::string& replace) const {
    TensorTest changed = *this;
    const size_t at = changed.source_.find(find);
    EXPECT_NE(at, std::string::npos) << find;
    if (at != std::string::npos) changed.source_.replace(at, find.size(), replace);
    return changed;
  }

 private:
  struct Buffer {
    std::vector<uint8_t> bytes;
    bool is_input = false;
    Make make = nullptr;
    bool is_read_back = false;  // an input that the kernel changes
  };
  uint32_t threads_;
  std::string source_;
  std::vector<Buffer> buffers_;
};

template <class T>
std::vector<uint8_t> bytes_of(const std::vector<T>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace octet::ptxsim::insn
