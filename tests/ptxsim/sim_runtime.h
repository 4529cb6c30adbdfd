// SPDX-License-Identifier: Apache-2.0
// The device of the CUDA runtime's stand-in (sim_runtime.cc): kernels by the names that the host's code registers, launches that wait
// until somebody waits for them, one machine.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "ptxsim/insn/approx.h"
#include "ptxsim/insn/decode.h"
#include "ptxsim/machine/machine.h"
#include "ptxsim/text/parse.h"
#include "sim_settings.h"

namespace octet::sim {

using namespace ptxsim;  // NOLINT(google-build-using-namespace): a test's

// nvcc puts numbers of its own into the names of what stands in unnamed namespaces, which differ between an object and PTX.
inline std::string without_hashes(const std::string& name) {
  std::string plain;
  for (size_t i = 0; i < name.size();) {
    size_t end = i;
    while (end < name.size() && std::isxdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
    const bool is_hash = end - i >= 8 && i > 0 && name[i - 1] == '_';
    plain += is_hash ? "#" : name.substr(i, std::max<size_t>(end - i, 1));
    // A name's length stands behind the hash, and is read as hexadecimal digits, too.
    i = is_hash ? i + 8 : std::max(end, i + 1);
  }
  return plain;
}

class Runtime {
 public:
  static Runtime& get() {
    static Runtime one;
    return one;
  }

  ~Runtime() {
    if (machine_ == nullptr) return;
    for (const auto& [what, count] : machine_->reports())
      std::fprintf(stderr, "simulator: %llu x %s\n", static_cast<unsigned long long>(count),
                   what.c_str());
  }
  void name(const void* host, const char* device) { names_[host] = device; }
  cudaError_t error() const { return error_; }
  uint32_t num_sms() { return machine().settings().num_sms; }
  // That a block may have: all but what is reserved for the system.
  int most_shared_bytes() { return int(machine().settings().sm_shared_bytes) - 1024; }
  int major() { return is_sm120() ? 12 : 9; }

  machine::Machine& machine() {
    if (machine_ == nullptr) {
      machine_ = std::make_unique<machine::Machine>(settings());
      load();
      if (const char* tables = std::getenv("OCTET_SIM_TABLES"); tables != nullptr) {
        if (const Status status = insn::use_approx_tables(tables); !status.ok()) fail(status);
      }
    }
    return *machine_;
  }

  cudaError_t launch(const void* host, machine::Dim3 grid, machine::Dim3 block,
                     machine::Dim3 cluster, void** args, size_t shared_bytes,
                     bool may_begin_early) {
    if (error_ != cudaSuccess) return error_;
    const auto program = find(names_[host]);
    if (!program.ok()) return fail(program.status());
    machine::Launch launch{*program,
                           grid,
                           block,
                           cluster,
                           uint32_t(shared_bytes),
                           std::vector<uint8_t>((*program)->parameter_bytes),
                           may_begin_early};
    for (size_t i = 0; i < (*program)->parameters.size(); ++i) {
      const machine::Parameter& p = (*program)->parameters[i];
      std::memcpy(launch.parameters.data() + p.offset, args[i], p.bytes);
    }
    waiting_.push_back(std::move(launch));
    return cudaSuccess;
  }

  cudaError_t wait() {
    if (error_ != cudaSuccess || waiting_.empty()) return error_;
    const std::vector<machine::Launch> launches = std::move(waiting_);
    waiting_.clear();
    const Status status = machine().run(launches);
    return status.ok() ? cudaSuccess : fail(status);
  }

  cudaError_t fail(const Status& status) {
    std::fprintf(stderr, "simulator: %s\n", status.why.c_str());
    return error_ = cudaErrorLaunchFailure;
  }

 private:
  static machine::Settings settings() {
    machine::Settings base;
    base.num_sms = 4;
    take_environment(base);
    return base;
  }

  void load() {
    for (const std::string& path : ptx_of_environment()) {
      std::ifstream file(path, std::ios::binary);
      const std::string source{std::istreambuf_iterator<char>(file), {}};
      auto module = text::parse(source);
      if (!module.ok()) {
        std::fprintf(stderr, "%s: %s\n", path.c_str(), module.status().why.c_str());
        std::exit(1);
      }
      modules_.push_back(std::make_unique<text::Module>(std::move(module).value()));
      auto data = insn::ModuleData::load(*modules_.back(), machine_->memory());
      data_.push_back(data.ok() ? std::move(data).value() : insn::ModuleData{});
    }
  }

  Result<const machine::Program*> find(const std::string& name) {
    machine();
    if (const auto found = programs_.find(name); found != programs_.end()) return &found->second;
    for (size_t i = 0; i < modules_.size(); ++i) {
      for (const auto& item : modules_[i]->items) {
        const auto* function = std::get_if<text::Function>(&item);
        if (function == nullptr || !function->body ||
            without_hashes(function->name) != without_hashes(name))
          continue;
        auto program = insn::decode(*modules_[i], function->name, data_[i]);
        if (!program.ok()) return program.status();
        return &(programs_[name] = std::move(program).value());
      }
    }
    return invalid_argument("no kernel '" + name + "' in the files of OCTET_PTX");
  }

  std::unique_ptr<machine::Machine> machine_;
  std::vector<std::unique_ptr<text::Module>> modules_;
  std::vector<insn::ModuleData> data_;
  std::map<std::string, machine::Program> programs_;
  std::map<const void*, std::string> names_;
  std::vector<machine::Launch> waiting_;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace octet::sim
