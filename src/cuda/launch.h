// SPDX-License-Identifier: Apache-2.0
// Launching kernels of a chain, each of which may begin while the one before it ends (programmatic dependent launch: CUDA C++
// Programming Guide, "Programmatic Dependent Launch"; PTX ISA, griddepcontrol). Devices before SM90, and code for them on later devices,
// run them one after another.
#pragma once

#include <cstddef>
#include <string>

#include <cuda_runtime.h>

#include "octet/status.hpp"

namespace octet::cuda {

// Before the first read of what an earlier kernel of the chain wrote, and before the first write of what it reads.
__device__ __forceinline__ void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// The next kernel may begin: its CTAs are placed as soon as there is room, and wait in wait_for_previous() for all of this one.
__device__ __forceinline__ void let_next_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

inline Status launch_status(const char* kernel, cudaError_t error) {
  if (error == cudaSuccess) return {};
  cudaGetLastError();  // said here; an earlier one is not ours to clear
  return {Code::kDeviceError, std::string(kernel) + ": " + cudaGetErrorString(error)};
}

// Whether the current device runs code that waits in wait_for_previous(): it must be of SM90 or later, and so must some of the code
// that was compiled; with code for SM90 there is PTX of it for later devices, too (OctetCuda.cmake). Other code must not begin early.
inline bool can_begin_early() {
#if defined(__CUDA_ARCH_LIST__)
  constexpr int kCode[] = {__CUDA_ARCH_LIST__};
  bool has_waits = false;
  for (const int arch : kCode) has_waits |= arch >= 900;
  int device = 0, major = 0;
  return has_waits && cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         major >= 9;
#else
  return false;
#endif
}

// Once a kernel and device, before the first launch with that much dynamic shared memory; loads the kernel, too.
template <class Args>
Status allow_shared_bytes(const char* name, void (*kernel)(Args), int bytes) {
  return launch_status(
      name, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
}

// Enqueues kernel(args), with a programmatic edge to the kernel before it where it may begin early. Allocates nothing, synchronises nothing, safe inside
// graph capture. `name` is for the error's sentence, `shared_bytes` are of dynamic shared memory.
template <class Args>
Status launch(const char* name, void (*kernel)(Args), dim3 grid, int threads, const Args& args,
              cudaStream_t stream, size_t shared_bytes = 0) {
  cudaLaunchAttribute edge{};
  edge.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  edge.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &edge;
  config.numAttrs = can_begin_early() ? 1 : 0;
  return launch_status(name, cudaLaunchKernelEx(&config, kernel, args));
}

}  // namespace octet::cuda
