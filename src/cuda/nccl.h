// SPDX-License-Identifier: Apache-2.0
// The calls of NCCL that are needed, from the libnccl.so.2 that the process has or finds: the library does not depend on NCCL. Types and
// numbers: nccl.h of NCCL 2 (ncclResult_t and ncclDataType_t are ints, ncclSuccess 0, ncclUint8 1; communicators are pointers).
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

#include "octet/status.hpp"

namespace octet::cuda {

struct Nccl {
  static constexpr int kSuccess = 0, kBytes = 1;
  int (*all_gather)(const void* send, void* recv, size_t count, int dtype, void* comm,
                    cudaStream_t stream);
  int (*comm_count)(void* comm, int* ranks);
  int (*comm_rank)(void* comm, int* rank);
  const char* (*error_string)(int result);

  Status status(const char* call, int result) const;
};
// Loaded at the first call, never unloaded. kUnsupported if there was none then, also later.
Result<const Nccl*> nccl();

}  // namespace octet::cuda
