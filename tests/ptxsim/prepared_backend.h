// SPDX-License-Identifier: Apache-2.0
// The backends of prepared tensors whose kernels are tested alike: a source file for each (prepared_sm100.cc, prepared_sm120.cc), of which a
// test's program has one.
#pragma once

#include <cstdint>

#include "cuda/prepared_gemm.h"

namespace octet::sim {

struct PreparedBackend {
  const char* name;
  const cuda::PreparedGemms& gemms;
  int num_sms;                           // of a device that is common
  uint32_t sm_shared_bytes, sm_threads;  // of a multiprocessor
  uint64_t products_of_chunk;            // matrix instructions for 128 of K of an item
  uint32_t gemm1_stage_chunks;           // 128s of K a stage; gemm2 has one
  int least_bytes_in_flight;  // of weights and scales that a multiprocessor must keep on their way
};

const PreparedBackend& prepared_backend();

}  // namespace octet::sim
