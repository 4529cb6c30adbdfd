// SPDX-License-Identifier: Apache-2.0
// Launching kernels that take more shared memory than the default: cuda/launch.h's edge and a size.
#pragma once

#include "cuda/launch.h"

namespace octet::sm90 {

// Shared memory that a CTA may have.
constexpr int kMostSharedBytes = 232448;

template <class Args>
Status launch(const char* name, void (*kernel)(Args), int grid, int threads, int shared_bytes,
              const Args& args, cudaStream_t stream) {
  cudaLaunchAttribute edge{};
  edge.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  edge.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(grid));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = &edge;
  config.numAttrs = 1;
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, args);
  if (error != cudaSuccess) cudaGetLastError();  // said here; an earlier one is not ours to clear
  return cuda::launch_status(name, error);
}

template <class Args>
Status allow_shared_bytes(const char* name, void (*kernel)(Args), int bytes) {
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error != cudaSuccess) cudaGetLastError();
  return cuda::launch_status(name, error);
}

}  // namespace octet::sm90
