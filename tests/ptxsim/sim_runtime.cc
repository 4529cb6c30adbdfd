// SPDX-License-Identifier: Apache-2.0
// A stand-in for the CUDA runtime whose device is the simulator: tests of kernels are linked with it in place of cudart, and run as
// they are, with no device.
//
// The environment says what it is (sim_settings.h; 4 multiprocessors if it does not), and:
//   OCTET_SIM_TABLES  a folder of a device's approximations (insn/approx.h)
// The host's code registers the kernels' names, launches find them in the files of OCTET_PTX. Reports are printed at the end.
//
// One stream: launches are kept until somebody waits or copies, and then run one after the other or, where they say they may begin
// early, beside each other. A run that fails is printed, and every later call returns cudaErrorLaunchFailure.
// Absent: graphs, events' times, memory that host and device share, variables of modules by their names.
#include "sim_runtime.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using namespace octet;
using namespace octet::ptxsim;
using octet::sim::Runtime;

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

// The device: a Hopper, or what OCTET_SIM_DEVICE says, of a few multiprocessors.
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
      *value = Runtime::get().most_shared_bytes();
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = Runtime::get().major();
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
  properties->major = Runtime::get().major();
  properties->multiProcessorCount = int(Runtime::get().num_sms());
  properties->sharedMemPerBlockOptin = size_t(Runtime::get().most_shared_bytes());
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
