// SPDX-License-Identifier: Apache-2.0
// What a caller may want of a call beyond y and rows, out of what the experts' kernel left.
#pragma once

#include <cuda_runtime_api.h>

#include "octet/status.hpp"
#include "sm90/experts_mxfp8.h"

namespace octet::sm90 {

struct ReadBackArgs {
  const ExpertsArgs* experts = nullptr;  // of the launch before
  // h out of the workspace's records, rows of the slots that slot_row names. Null: not wanted.
  uint8_t* h_values = nullptr;  // [T k, I] e4m3
  uint8_t* h_scales = nullptr;  // [T k, I/32] ue8m0
  Bf16* h = nullptr;            // [T k, I]; of BF16 activations, and then alone
  // slot_row + first_row, -1 as it is: of a chunk of a longer call. Null: not wanted.
  int32_t* permuted = nullptr;  // [T, k]
  int32_t first_row = 0;
};
// Enqueues on `stream`, right behind launch_experts() and before anything else has the workspace; nothing if nothing is wanted.
// Allocates nothing, synchronises nothing, safe inside graph capture. Errors: kDeviceError from the launch.
Status launch_read_back(const ReadBackArgs& args, cudaStream_t stream);

}  // namespace octet::sm90
