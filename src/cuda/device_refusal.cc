// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include <cuda_runtime_api.h>

#include "cuda/device_layer.h"
#include "cuda/expert_gemm_bf16.h"

namespace octet::cuda {
namespace {

std::string version_text(int version) {
  return std::to_string(version / 10) + "." + std::to_string(version % 10);
}

}  // namespace

std::string device_refusal(int major, int minor, bool only) {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count == 0) error = cudaErrorNoDevice;
  if (error != cudaSuccess) {
    cudaGetLastError();
    return std::string("no CUDA device: ") +
           (error == cudaErrorInsufficientDriver ? "no driver, or one older than the library's CUDA"
                                                 : cudaGetErrorString(error));
  }
  // An error that a kernel of the process left stays with the context and comes back from every call.
  error = cudaFree(nullptr);
  int device = 0, found_major = 0, found_minor = 0;
  if (error == cudaSuccess) error = cudaGetDevice(&device);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&found_major, cudaDevAttrComputeCapabilityMajor, device);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&found_minor, cudaDevAttrComputeCapabilityMinor, device);
  if (error != cudaSuccess) {
    return std::string("the CUDA device reports an earlier error: ") + cudaGetErrorString(error);
  }
  const int found = 10 * found_major + found_minor, wanted = 10 * major + minor;
  if (found == wanted || (found > wanted && !only)) return {};
  return "the CUDA device has compute capability " + version_text(found) + ", want " +
         (only ? "" : "at least ") + version_text(wanted);
}

std::string sm80_refusal() {
  if (std::string why = device_refusal(8, 0); !why.empty()) return why;
  const int wanted = std::max(expert_gemm_bf16_shared_bytes(WeightFormat::kMxfp4),
                              expert_gemm_bf16_shared_bytes(WeightFormat::kNvfp4));
  int device = 0, found = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&found, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (found >= wanted) return {};
  return "the CUDA device has " + std::to_string(found) +
         " bytes of shared memory a block, want at least " + std::to_string(wanted);
}

}  // namespace octet::cuda
