// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include <chrono>
#include <dlfcn.h>
#include <fmt/format.h>
#include <thread>

#include <cuda.h>

namespace octet::cross {
namespace {

struct Driver {
#define OCTET_CROSS_CALL(name) decltype(&::name) name = nullptr;
#include "driver_calls.inc"
#undef OCTET_CROSS_CALL
};

Status load(Driver* driver) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return unsupported("no CUDA driver: libcuda.so.1 is not there");
#define OCTET_CROSS_CALL(name)                                               \
  driver->name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name)); \
  if (driver->name == nullptr) return unsupported("the CUDA driver has no " #name);
#include "driver_calls.inc"
#undef OCTET_CROSS_CALL
  return {};
}

constexpr auto kLongest = std::chrono::seconds(10);  // of a case

class CudaDevice : public Device {
 public:
  Status start() {
    OCTET_RETURN_IF_ERROR(load(&cu_));
    OCTET_RETURN_IF_ERROR(check(cu_.cuInit(0), "cuInit"));
    OCTET_RETURN_IF_ERROR(check(cu_.cuDeviceGet(&device_, 0), "cuDeviceGet"));
    const int major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
              minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    if (major != 9 || minor != 0)
      return unsupported(
          fmt::format("the device has compute capability {}.{}, want 9.0 (Hopper)", major, minor));
    CUcontext context = nullptr;
    OCTET_RETURN_IF_ERROR(
        check(cu_.cuDevicePrimaryCtxRetain(&context, device_), "cuDevicePrimaryCtxRetain"));
    OCTET_RETURN_IF_ERROR(check(cu_.cuCtxSetCurrent(context), "cuCtxSetCurrent"));
    return check(cu_.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  }

  std::string description() const override {
    char name[256] = {};
    int version = 0;
    cu_.cuDeviceGetName(name, sizeof(name) - 1, device_);
    cu_.cuDriverGetVersion(&version);
    return fmt::format(
        R"({{"name": "{}", "driver_cuda": "{}.{}", "multiprocessors": {}, "clock_khz": {}, "memory_clock_khz": {}}})",
        name, version / 1000, version % 1000 / 10,
        attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
        attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE));
  }

  Outcome run(const Case& what, bool* is_lost) override {
    Outcome outcome;
    if (!what.probes.empty()) {
      outcome.outputs = {probe(what)};
      return outcome;
    }
    auto held = std::make_unique<Held>(cu_);
    const Status status = run(what, *held, &outcome.outputs);
    if (!status.ok()) outcome = {status.why, {}};
    *is_lost = cu_.cuStreamQuery(stream_) != CUDA_SUCCESS;
    if (*is_lost) static_cast<void>(held.release());  // to free it would wait
    return outcome;
  }

 private:
  // What a case has of the device.
  struct Held {
    explicit Held(const Driver& driver) : cu(driver) {}
    ~Held() {
      for (const CUdeviceptr at : buffers) cu.cuMemFree_v2(at);
      if (module != nullptr) cu.cuModuleUnload(module);
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    const Driver& cu;
    CUmodule module = nullptr;
    std::vector<CUdeviceptr> buffers;
    std::vector<CUtensorMap> maps;
  };

  int attribute(CUdevice_attribute which) const {
    int value = 0;
    cu_.cuDeviceGetAttribute(&value, which, device_);
    return value;
  }

  Status check(CUresult result, const char* what) const {
    if (result == CUDA_SUCCESS) return {};
    const char* text = nullptr;
    cu_.cuGetErrorString(result, &text);
    return {Code::kDeviceError, fmt::format("{}: {} ({})", what, text == nullptr ? "?" : text,
                                            static_cast<int>(result))};
  }

  CUresult encode(const TensorMapArgs& args, uint64_t base, CUtensorMap* map) const {
    const auto rank = static_cast<cuuint32_t>(args.rank);
    return cu_.cuTensorMapEncodeTiled(map, static_cast<CUtensorMapDataType>(args.type), rank,
                                      reinterpret_cast<void*>(base), args.dims.data(),
                                      args.strides.data(), args.box.data(), args.steps.data(),
                                      static_cast<CUtensorMapInterleave>(args.interleave),
                                      static_cast<CUtensorMapSwizzle>(args.swizzle),
                                      static_cast<CUtensorMapL2promotion>(args.l2_promotion),
                                      static_cast<CUtensorMapFloatOOBfill>(args.fill));
  }

  Bytes probe(const Case& what) const {
    Bytes accepted;
    for (const TensorMapArgs& args : what.probes) {
      CUtensorMap map;
      accepted.push_back(encode(args, args.base, &map) == CUDA_SUCCESS ? 1 : 0);
    }
    return accepted;
  }

  Status prepare(const Case& what, Held& held) const {
    char log[4096] = {};
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log, reinterpret_cast<void*>(sizeof(log))};
    if (const Status loaded =
            check(cu_.cuModuleLoadDataEx(&held.module, what.text.c_str(), 2, options, values),
                  "cuModuleLoadDataEx");
        !loaded.ok())
      return {loaded.code, loaded.why + ": " + log};
    for (const Buffer& buffer : what.buffers) {
      CUdeviceptr at = 0;
      OCTET_RETURN_IF_ERROR(check(cu_.cuMemAlloc_v2(&at, buffer.bytes.size()), "cuMemAlloc"));
      held.buffers.push_back(at);
      OCTET_RETURN_IF_ERROR(
          check(cu_.cuMemcpyHtoD_v2(at, buffer.bytes.data(), buffer.bytes.size()), "cuMemcpyHtoD"));
    }
    held.maps.resize(what.maps.size());
    for (size_t i = 0; i < what.maps.size(); ++i)
      OCTET_RETURN_IF_ERROR(
          check(encode(what.maps[i].args, held.buffers[what.maps[i].buffer] + what.maps[i].offset,
                       &held.maps[i]),
                "cuTensorMapEncodeTiled"));
    return {};
  }

  Status launch(const Launch& launch, Held& held) const {
    CUfunction function = nullptr;
    OCTET_RETURN_IF_ERROR(
        check(cu_.cuModuleGetFunction(&function, held.module, launch.kernel.c_str()),
              "cuModuleGetFunction"));
    std::vector<void*> parameters;
    for (CUdeviceptr& at : held.buffers) parameters.push_back(&at);
    for (CUtensorMap& map : held.maps) parameters.push_back(&map);
    std::vector<CUlaunchAttribute> attributes;
    const bool has_cluster = launch.cluster.x * launch.cluster.y * launch.cluster.z > 1;
    if (has_cluster) {
      CUlaunchAttribute cluster = {};
      cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
      cluster.value.clusterDim.x = launch.cluster.x;
      cluster.value.clusterDim.y = launch.cluster.y;
      cluster.value.clusterDim.z = launch.cluster.z;
      attributes.push_back(cluster);
    }
    if (launch.is_programmatic) {
      CUlaunchAttribute edge = {};
      edge.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
      edge.value.programmaticStreamSerializationAllowed = 1;
      attributes.push_back(edge);
    }
    CUlaunchConfig config = {};
    config.gridDimX = launch.grid.x;
    config.gridDimY = launch.grid.y;
    config.gridDimZ = launch.grid.z;
    config.blockDimX = launch.block.x;
    config.blockDimY = launch.block.y;
    config.blockDimZ = launch.block.z;
    config.sharedMemBytes = launch.dynamic_shared_bytes;
    config.hStream = stream_;
    config.attrs = attributes.data();
    config.numAttrs = static_cast<unsigned>(attributes.size());
    return check(cu_.cuLaunchKernelEx(&config, function, parameters.data(), nullptr),
                 "cuLaunchKernelEx");
  }

  // A kernel that does not end is left to itself.
  Status wait() const {
    const auto until = std::chrono::steady_clock::now() + kLongest;
    for (;;) {
      const CUresult result = cu_.cuStreamQuery(stream_);
      if (result != CUDA_ERROR_NOT_READY) return check(result, "the kernel");
      if (std::chrono::steady_clock::now() > until)
        return {Code::kDeviceError, "the kernel has not ended"};
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  Status run(const Case& what, Held& held, std::vector<Bytes>* outputs) const {
    OCTET_RETURN_IF_ERROR(prepare(what, held));
    OCTET_RETURN_IF_ERROR(check(cu_.cuCtxSynchronize(), "the copies"));
    for (const Launch& one : what.launches) OCTET_RETURN_IF_ERROR(launch(one, held));
    OCTET_RETURN_IF_ERROR(wait());
    for (size_t i = 0; i < what.buffers.size(); ++i) {
      if (!what.buffers[i].is_output) continue;
      Bytes bytes(what.buffers[i].bytes.size());
      OCTET_RETURN_IF_ERROR(
          check(cu_.cuMemcpyDtoH_v2(bytes.data(), held.buffers[i], bytes.size()), "cuMemcpyDtoH"));
      outputs->push_back(std::move(bytes));
    }
    return {};
  }

  Driver cu_;
  CUdevice device_ = 0;
  CUstream stream_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<Device>> Device::open() {
  auto device = std::make_unique<CudaDevice>();
  OCTET_RETURN_IF_ERROR(device->start());
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace octet::cross
