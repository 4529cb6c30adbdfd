// SPDX-License-Identifier: Apache-2.0
#include "prepared_backend.h"
#include "sm100/gemm_launch.h"

namespace octet::sim {

// A B200. An item's product is one instruction.
const PreparedBackend& prepared_backend() {
  static const PreparedBackend kBackend = {.name = "sm100",
                                           .gemms = sm100::gemms(),
                                           .num_sms = 148,
                                           .sm_shared_bytes = 233472,
                                           .sm_threads = 2048,
                                           .products_of_chunk = cuda::kProductsOfChunk,
                                           .gemm1_stage_chunks = sm100::Gemm1Traits::kChunks,
                                           .least_bytes_in_flight = 90 * 1024};
  static_assert(sm100::Gemm2Traits::kChunks == 1);
  return kBackend;
}

}  // namespace octet::sim
