// SPDX-License-Identifier: Apache-2.0
// Tensor parallelism's last step over a communicator (rank_sum.h says how); compiles without a CUDA header. In a library without CUDA
// device_layer_absent.cc stands in.
#pragma once

#include <cstdint>

#include "formats/bf16.h"
#include "octet/status.hpp"

namespace octet::cuda {

// `partials` [ranks, count] of which this rank has written its own part, the others' parts and y are written. All ranks call it alike.
// Device memory, 16-byte aligned.
struct RankReduceArgs {
  void* comm;      // ncclComm_t
  Bf16* partials;  // [ranks, count]
  int64_t count;   // T * H, a multiple of 8
  Bf16* y;         // [count]; may be one of the partials
};
// Enqueues on `stream`, a cudaStream_t; safe in graph capture. Errors, before anything is enqueued: kInvalidArgument (a pointer that is
// missing or misaligned, a count), kUnsupported where the process finds no libnccl.so.2 (it is loaded at the first call); kDeviceError with NCCL's words.
Status reduce_over_ranks(const RankReduceArgs& args, void* stream);

}  // namespace octet::cuda
