// SPDX-License-Identifier: Apache-2.0
#include "prepared_backend.h"
#include "sm120/gemm_launch.h"

namespace octet::sim {

// An RTX PRO 6000 of Blackwell. An item's product is an instruction of each of eight warps.
const PreparedBackend& prepared_backend() {
  static const PreparedBackend kBackend = {
      .name = "sm120",
      .gemms = sm120::gemms(),
      .num_sms = 188,
      .sm_shared_bytes = 102400,
      .sm_threads = 1536,
      .products_of_chunk = uint64_t{cuda::kProductsOfChunk} * sm120::kMultiplyWarps,
      .gemm1_stage_chunks = sm120::Gemm1Traits::kChunks,
      .least_bytes_in_flight = 68 * 1024};
  static_assert(sm120::Gemm2Traits::kChunks == 1);
  return kBackend;
}

}  // namespace octet::sim
