// SPDX-License-Identifier: Apache-2.0
// Launching a kernel of PreparedGemms.
#pragma once

#include <string>

#include "cuda/launch.h"
#include "cuda/prepared_gemm.h"

namespace octet::cuda {

// As PreparedGemms says of its launches; `name` is for the error's sentence.
template <class Args>
Status launch_gemm(const char* name, void (*kernel)(Args), int threads,
                   const GemmLaunch<Args>& launch, int ctas, cudaStream_t stream) {
  if (launch.args.gemm.most_tiles == 0) return {};
  if (ctas < 1) return unsupported("CTAs " + std::to_string(ctas) + ", want at least 1");
  return cuda::launch(name, kernel, dim3(static_cast<unsigned>(ctas)), threads, launch.args, stream,
                      static_cast<size_t>(launch.plan.dynamic_bytes));
}

}  // namespace octet::cuda
