// SPDX-License-Identifier: Apache-2.0
// What mxfp8_pair.cc asks the two kernels' files.
#pragma once

#include "cuda/expert_gemm.h"
#include "octet/status.hpp"

namespace octet::sm90 {

// Shared memory of a CTA.
int up_shared_bytes(const cuda::ExpertGemmArgs& args);
int down_shared_bytes(const cuda::ExpertGemmArgs& args);
Status prepare_up();
Status prepare_down();

}  // namespace octet::sm90
