// SPDX-License-Identifier: Apache-2.0
// A pair of GEMMs that is not there, and addresses that nobody reads, for tests of what stands around the kernels.
#pragma once

#include <cstdint>

#include "cuda/prepared_gemm.h"

namespace octet::cuda {

template <class T>
T* address(uintptr_t at) {
  return reinterpret_cast<T*>(at);
}

// Stages of a chunk and 10 KB, at most four; H up to 32,768.
constexpr PreparedGemms kNoGemms = {
    .gemm1_plan =
        [](int64_t hidden, int64_t intermediate) {
          const int fixed = hidden > 32768 ? 100'000 : 0;
          return gemm_plan(w13_blocks(intermediate), chunks_of(hidden),
                           {1, 10'240, 4, 100'000, fixed});
        },
    .gemm2_plan =
        [](int64_t hidden, int64_t padded) {
          return gemm_plan(w2_blocks(hidden), chunks_of(padded), {1, 10'240, 4, 100'000, 0});
        },
    .encode_weights = encode_unpacked_weights,
    .prepare = [] { return Status{}; },
    .launch_gemm1 = [](const GemmLaunch<Gemm1KernelArgs>&, int, cudaStream_t) { return Status{}; },
    .launch_gemm2 = [](const GemmLaunch<Gemm2KernelArgs>&, int, cudaStream_t) { return Status{}; }};

}  // namespace octet::cuda
