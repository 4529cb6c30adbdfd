// SPDX-License-Identifier: Apache-2.0
// A stand-in for the CUDA runtime whose device is the simulator: tests of kernels are linked with it in place of cudart, and run as
// they are, with no device.
//
//   OCTET_PTX    files of PTX, separated by ':': the kernels. The host's code registers their names, launches find them there
//   OCTET_SIM_ORDER  report: what the ordering checker finds is printed at the end and is no error
//   OCTET_SIM    "late 7": time and seed, "eager 1" if it is not set; "late 7 16": and multiprocessors, 4 if they are not given
//
// One stream: launches are kept until somebody waits or copies, and then run one after the other or, where they say they may begin
// early, beside each other. A run that fails is printed, and every later call returns cudaErrorLaunchFailure.
// Absent: graphs, events' times, memory that host and device share, variables of modules by their names.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "ptxsim/insn/decode.h"
#include "ptxsim/machine/machine.h"
#include "ptxsim/text/parse.h"

namespace {

using namespace octet;
using namespace octet::ptxsim;

// nvcc puts numbers of its own into the names of what stands in unnamed namespaces, which differ between an object and PTX.
std::string without_hashes(const std::string& name) {
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

machine::Settings settings_of_environment() {
  machine::Settings settings;
  settings.num_sms = 4;
  const char* text = std::getenv("OCTET_SIM");
  std::istringstream in(text == nullptr ? "" : text);
  std::string time;
  in >> time >> settings.seed >> settings.num_sms;
  settings.time = time == "late"     ? machine::Time::kLate
                  : time == "random" ? machine::Time::kRandom
                                     : machine::Time::kEager;
  if (std::getenv("OCTET_SIM_ORDER") != nullptr) settings.order = machine::OrderCheck::kReport;
  return settings;
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

  machine::Machine& machine() {
    if (machine_ == nullptr) {
      machine_ = std::make_unique<machine::Machine>(settings_of_environment());
      load();
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
  void load() {
    const char* paths = std::getenv("OCTET_PTX");
    std::istringstream in(paths == nullptr ? "" : paths);
    for (std::string path; std::getline(in, path, ':');) {
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

machine::Dim3 dim_of(const dim3& d) { return {d.x, d.y, d.z}; }

struct CallConfiguration {
  dim3 grid, block;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};
CallConfiguration& configuration() {
  static CallConfiguration one;
  return one;
}

bool is_device(const void* p) {
  return reinterpret_cast<uint64_t>(p) >= machine::kGlobalBase &&
         reinterpret_cast<uint64_t>(p) < machine::kGlobalBase + (uint64_t{1} << 43);
}

}  // namespace

extern "C" {

// What nvcc's host code calls.
void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterFunction(void**, const char* host, char*, const char* device, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  Runtime::get().name(host, device);
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                     cudaStream_t stream) {
  configuration() = {grid, block, shared_bytes, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                       void* stream) {
  *grid = configuration().grid;
  *block = configuration().block;
  *shared_bytes = configuration().shared_bytes;
  *static_cast<cudaStream_t*>(stream) = configuration().stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args,
                               size_t shared_bytes, cudaStream_t) {
  return Runtime::get().launch(kernel, dim_of(grid), dim_of(block), {}, args, shared_bytes, false);
}

cudaError_t cudaLaunchKernel(const void* host, dim3 grid, dim3 block, void** args,
                             size_t shared_bytes, cudaStream_t) {
  return Runtime::get().launch(host, dim_of(grid), dim_of(block), {}, args, shared_bytes, false);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* host, void** args) {
  bool may_begin_early = false;
  machine::Dim3 cluster;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization)
      may_begin_early = attribute.val.programmaticStreamSerializationAllowed != 0;
    if (attribute.id == cudaLaunchAttributeClusterDimension)
      cluster = {attribute.val.clusterDim.x, attribute.val.clusterDim.y,
                 attribute.val.clusterDim.z};
  }
  return Runtime::get().launch(host, dim_of(config->gridDim), dim_of(config->blockDim), cluster,
                               args, config->dynamicSmemBytes, may_begin_early);
}

// Memory.
cudaError_t cudaMalloc(void** at, size_t bytes) {
  *at = reinterpret_cast<void*>(Runtime::get().machine().memory().allocate("cudaMalloc", bytes));
  return cudaSuccess;
}
cudaError_t cudaFree(void* at) {
  const cudaError_t waited = Runtime::get().wait();
  if (at != nullptr) Runtime::get().machine().memory().release(reinterpret_cast<uint64_t>(at));
  return waited;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  if (const cudaError_t waited = Runtime::get().wait(); waited != cudaSuccess) return waited;
  auto& memory = Runtime::get().machine().memory();
  std::vector<uint8_t> data(bytes);
  if (is_device(from)) {
    const auto read = memory.read(reinterpret_cast<uint64_t>(from), bytes);
    if (!read.ok()) return Runtime::get().fail(read.status());
    data = *read;
  } else if (bytes != 0) {
    std::memcpy(data.data(), from, bytes);
  }
  if (!is_device(to)) {
    if (bytes != 0) std::memcpy(to, data.data(), bytes);
    return cudaSuccess;
  }
  const Status status = memory.write(reinterpret_cast<uint64_t>(to), data);
  return status.ok() ? cudaSuccess : Runtime::get().fail(status);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemset(void* at, int value, size_t bytes) {
  const std::vector<uint8_t> data(bytes, uint8_t(value));
  return cudaMemcpy(at, data.data(), bytes, cudaMemcpyHostToDevice);
}
cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t) {
  return cudaMemset(at, value, bytes);
}
cudaError_t cudaHostAlloc(void** at, size_t bytes, unsigned) {
  *at = std::malloc(bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* at) {
  std::free(at);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* left, size_t* all) {
  *left = *all = size_t{8} << 30;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* at) {
  *attributes = {};
  attributes->type = is_device(at) ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

// The device: a Hopper of a few multiprocessors.
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what, int) {
  switch (what) {
    case cudaDevAttrMultiProcessorCount:
      *value = int(Runtime::get().num_sms());
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = 232448 - 1024;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      break;
    case cudaDevAttrClockRate:
      *value = 1980000;
      break;
    default:
      *value = 0;
  }
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "simulator");
  properties->major = 9;
  properties->multiProcessorCount = int(Runtime::get().num_sms());
  properties->sharedMemPerBlockOptin = 232448 - 1024;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return Runtime::get().wait(); }
cudaError_t cudaGetLastError() { return Runtime::get().error(); }
cudaError_t cudaPeekAtLastError() { return Runtime::get().error(); }
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "the simulator's run failed";
}
const char* cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }

// Streams and events: all is one stream.
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return cudaStreamCreate(stream);
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return Runtime::get().wait(); }
cudaError_t cudaStreamQuery(cudaStream_t) { return Runtime::get().wait(); }
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = nullptr;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return Runtime::get().wait(); }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) {
  *ms = 1;
  return cudaSuccess;
}

// Graphs are absent.
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  return cudaErrorNotSupported;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*) { return cudaErrorNotSupported; }
cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long) {
  return cudaErrorNotSupported;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) { return cudaErrorNotSupported; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaSuccess; }
cudaError_t cudaGraphDestroy(cudaGraph_t) { return cudaSuccess; }

}  // extern "C"
