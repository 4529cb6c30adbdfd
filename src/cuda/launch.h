// SPDX-License-Identifier: Apache-2.0
// Launching kernels of a chain, each of which may begin while the one before it ends (programmatic dependent launch: CUDA C++
// Programming Guide, "Programmatic Dependent Launch"; PTX ISA, griddepcontrol). Devices before SM90 run them one after another.
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
  return {Code::kDeviceError, std::string(kernel) + ": " + cudaGetErrorString(error)};
}

// Enqueues kernel(args) with a programmatic edge to the kernel before it. Allocates nothing, synchronises nothing, safe inside
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
  config.numAttrs = 1;
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, args);
  if (error != cudaSuccess) cudaGetLastError();  // said here; an earlier one is not ours to clear
  return launch_status(name, error);
}

}  // namespace octet::cuda
