// SPDX-License-Identifier: Apache-2.0
// A device that is the simulator: kernels from files of PTX, memory, launches.
//
// The files are named on the command line of the test's program (sim_main.cc). A kernel is found by a part of its mangled name.
#pragma once

#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "ptxsim/insn/decode.h"
#include "ptxsim/machine/machine.h"

namespace octet::sim {

// Of the files on the command line; a Status that says which there are where none or several have the name.
Result<const ptxsim::machine::Program*> find_kernel(const std::string& part_of_name);

class Device {
 public:
  explicit Device(const ptxsim::machine::Settings& settings) : machine_(settings) {}
  ptxsim::machine::Machine& machine() { return machine_; }

  // Bytes that hold `from`; a pointer that only kernels may follow.
  template <class T>
  T* put(const std::vector<T>& from, const std::string& name, bool is_read_only = true) {
    const uint64_t at = machine_.memory().allocate(name, from.size() * sizeof(T), is_read_only);
    const auto* bytes = reinterpret_cast<const uint8_t*>(from.data());
    EXPECT_TRUE(machine_.memory().write(at, {bytes, from.size() * sizeof(T)}).ok());
    return reinterpret_cast<T*>(at);
  }
  // Bytes that nobody has written.
  template <class T>
  T* make(int64_t count, const std::string& name) {
    return reinterpret_cast<T*>(machine_.memory().allocate(name, size_t(count) * sizeof(T)));
  }
  template <class T>
  std::vector<T> back(const T* at, int64_t count) {
    std::vector<T> to(static_cast<size_t>(count));
    const auto bytes =
        machine_.memory().read(reinterpret_cast<uint64_t>(at), to.size() * sizeof(T));
    EXPECT_TRUE(bytes.ok()) << bytes.status().why;
    if (bytes.ok()) std::memcpy(static_cast<void*>(to.data()), bytes->data(), bytes->size());
    return to;
  }

  // A kernel whose one parameter is a struct, launched alone.
  template <class Args>
  Status run(const std::string& kernel, ptxsim::machine::Dim3 grid, uint32_t threads,
             const Args& args, uint32_t dynamic_shared_bytes = 0) {
    const auto program = find_kernel(kernel);
    if (!program.ok()) return program.status();
    std::vector<uint8_t> parameters(sizeof(Args));
    std::memcpy(parameters.data(), &args, sizeof(Args));
    return machine_.run(ptxsim::machine::Launch{
        *program, grid, {threads}, {}, dynamic_shared_bytes, parameters, false});
  }

 private:
  ptxsim::machine::Machine machine_;
};

// Every mode of time with each of so many seeds; or what OCTET_SIM says alone.
std::vector<ptxsim::machine::Settings> all_times(uint64_t seeds);
std::string shown(const ptxsim::machine::Settings& settings);

}  // namespace octet::sim
