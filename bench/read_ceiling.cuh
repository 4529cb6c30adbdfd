// SPDX-License-Identifier: Apache-2.0
// The read ceiling of a device of SM 9.0: bulk copies of 43,520 bytes, five on their way in each SM, evict-first, over all of some memory,
// once a replay after 15 ms of idling.
#pragma once

#include <cstdint>

#include "cuda/async_copy.cuh"
#include "graph_time.cuh"
#include "sm90/ptx/bulk_copy.cuh"

namespace octet::sm90 {

struct ReadArgs {
  const uint8_t* from;
  int64_t pieces;
};
constexpr int kPiece = 43520, kRing = 5;
static __global__ __launch_bounds__(32) void read_kernel(const __grid_constant__ ReadArgs a) {
  extern __shared__ __align__(128) uint8_t ring[];
  __shared__ uint64_t full[kRing];
  if (threadIdx.x != 0) return;
  for (uint64_t& b : full) ptx::init_barrier(b, 1);
  ptx::fence_barrier_init();
  const uint64_t policy = cuda::evict_first_policy();
  const auto issue = [&](int64_t piece, int slot) {
    ptx::arrive_expecting(full[slot], kPiece);
    ptx::bulk_copy(ring + slot * kPiece, a.from + piece * kPiece, kPiece, full[slot], policy);
  };
  int slot = 0;
  uint32_t parity = 0;
  int64_t next = blockIdx.x;
  for (int i = 0; i < kRing && next < a.pieces; ++i, next += gridDim.x) issue(next, i);
  for (int64_t piece = blockIdx.x; piece < a.pieces; piece += gridDim.x) {
    ptx::wait(full[slot], parity);
    if (next < a.pieces) issue(next, slot);
    next += gridDim.x;
    if (++slot == kRing) {
      slot = 0;
      parity ^= 1;
    }
  }
}

// GB/s over `bytes` of device memory.
inline double read_gb_s(const uint8_t* from, int64_t bytes) {
  cuda::check(cudaFuncSetAttribute(read_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   kRing * kPiece));
  int sms = 0;
  cuda::check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
  const ReadArgs a{from, bytes / kPiece};
  cuda::Graph g([&](cudaStream_t s) { read_kernel<<<sms, 32, kRing * kPiece, s>>>(a); });
  return static_cast<double>(a.pieces) * kPiece / g.time(9, 15, 1).median / 1e3;
}

}  // namespace octet::sm90
