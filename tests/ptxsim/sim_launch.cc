// SPDX-License-Identifier: Apache-2.0
#include "sim_launch.h"

#include <regex>

#include <cuda_runtime_api.h>

namespace octet::sim {
namespace {

LaunchQueue* queue = nullptr;

std::map<const void*, std::string>& kernels() {  // by the address that host code launches
  static std::map<const void*, std::string> all;
  return all;
}

// What stands behind the anonymous namespace's own name: "14experts_kernelILi10E...".
std::string lasting_part(const std::string& name) {
  static const std::regex before("^.*_GLOBAL__N__[0-9a-f]+_[0-9]+_.*_cu_[0-9a-f]{8}");
  return std::regex_replace(name, before, "");
}

}  // namespace

// Members of LaunchQueue for the wrapped functions below.
struct LaunchHooks {
  static cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, void** args) {
    if (queue == nullptr) return cudaErrorNoDevice;
    const auto name = kernels().find(kernel);
    const auto program =
        find_kernel(name == kernels().end() ? "(none)" : lasting_part(name->second));
    if (!program.ok()) {
      if (queue->status_.ok()) queue->status_ = program.status();
      return cudaSuccess;
    }
    ptxsim::machine::Launch launch;
    launch.program = *program;
    launch.grid = {config.gridDim.x, config.gridDim.y, config.gridDim.z};
    launch.block = {config.blockDim.x, config.blockDim.y, config.blockDim.z};
    launch.dynamic_shared_bytes = static_cast<uint32_t>(config.dynamicSmemBytes);
    for (unsigned i = 0; i < config.numAttrs; ++i)
      launch.is_programmatic |=
          config.attrs[i].id == cudaLaunchAttributeProgrammaticStreamSerialization &&
          config.attrs[i].val.programmaticStreamSerializationAllowed != 0;
    launch.parameters.resize((*program)->parameter_bytes);
    for (size_t i = 0; i < (*program)->parameters.size(); ++i) {
      const auto& parameter = (*program)->parameters[i];
      std::memcpy(launch.parameters.data() + parameter.offset, args[i], parameter.bytes);
    }
    queue->launches_.push_back(std::move(launch));
    return cudaSuccess;
  }
  static int num_sms() { return queue == nullptr ? 1 : queue->num_sms_; }
};

LaunchQueue::LaunchQueue(Device& device, int num_sms) : device_(device), num_sms_(num_sms) {
  EXPECT_EQ(queue, nullptr);
  queue = this;
}
LaunchQueue::~LaunchQueue() { queue = nullptr; }

Status LaunchQueue::run_all() {
  OCTET_RETURN_IF_ERROR(status_);
  const std::vector<ptxsim::machine::Launch> launches = std::move(launches_);
  launches_.clear();
  return device_.machine().run(launches);
}

}  // namespace octet::sim

// NOLINTBEGIN(readability-identifier-naming): the linker's names
extern "C" {

void __real___cudaRegisterFunction(void** binary, const char* host, char* device, const char* name,
                                   int limit, uint3* tid, uint3* bid, dim3* block, dim3* grid,
                                   int* warp);
void __wrap___cudaRegisterFunction(void** binary, const char* host, char* device, const char* name,
                                   int limit, uint3* tid, uint3* bid, dim3* block, dim3* grid,
                                   int* warp) {
  octet::sim::kernels()[host] = name;
  __real___cudaRegisterFunction(binary, host, device, name, limit, tid, bid, block, grid, warp);
}

cudaError_t __wrap_cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel,
                                       void** args) {
  return octet::sim::LaunchHooks::launch(*config, kernel, args);
}
cudaError_t __wrap_cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t __wrap_cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  if (attribute == cudaDevAttrComputeCapabilityMajor) {
    *value = 9;
  } else if (attribute == cudaDevAttrMultiProcessorCount) {
    *value = octet::sim::LaunchHooks::num_sms();
  } else {
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}
cudaError_t __wrap_cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
}
// NOLINTEND(readability-identifier-naming)
