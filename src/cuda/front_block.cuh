// SPDX-License-Identifier: Apache-2.0
// Top-k and the record of a decode step by one block, or, on SM90 and later, by a cluster of as many as there are rows:
//
//   logits of row r ──► topk_block, block r ──► topk_ids, topk_weights of the row
//                                          └──► ids in block 0's shared memory ──► route_few, block 0 ──► permuted, record
//
// PTX ISA, "barrier.cluster", "mapa", "st.shared::cluster". The bytes are the same.
#pragma once

#include <cstdint>

#include "cuda/route.cuh"
#include "cuda/topk_dsv4.cuh"

namespace octet::cuda {

constexpr int kFrontRows = static_cast<int>(kFewTokens);
static_assert(kTopkThreads == kRouteThreads && kTopkRows >= kFrontRows);

// kRows: of a block; as many as a decode step has, or one.
template <int kRows>
struct FrontShared {
  TopkShared<kRows> topk;
  RouteShared route;
  int32_t ids[kFrontRows][8];
};

namespace cluster {

// The second half of a barrier of all threads of the cluster: what they wrote before arrive() is seen after wait().
__device__ __forceinline__ void arrive() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
// To where `own` is in block 0 of the cluster.
__device__ __forceinline__ void store_to_first([[maybe_unused]] int32_t* own,
                                               [[maybe_unused]] int32_t value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n.reg .u32 there;\nmapa.shared::cluster.u32 there, %0, 0;\n"
      "st.shared::cluster.s32 [there], %1;\n}" ::"r"(
          static_cast<uint32_t>(__cvta_generic_to_shared(own))),
      "r"(value)
      : "memory");
#endif
}

}  // namespace cluster

// Before the first wait for an earlier kernel, by all threads of blocks 0 ... T - 1.
template <int kRows>
__device__ __forceinline__ void begin_front(const TopkArgs& a) {
  if (kRows < kFrontRows && a.tokens > 1) cluster::arrive();
}

// By all threads of blocks 0 ... ceil(T / kRows) - 1 of the grid, which are the first ones of a cluster, `block` being this one's number.
// The others of the cluster come here, too.
template <int kKeys, int kRows>
__device__ __forceinline__ void front_block(const TopkArgs& topk, const RouteArgs& route,
                                            FrontShared<kRows>& s, int block) {
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t warp = thread / kWarp, lane = thread % kWarp;
  const int id = topk_block<kKeys, kRows>(topk, int64_t{block} * kRows, s.topk, [&] {
    if (block == 0) begin_few(route, s.route);
  });
  if (kRows == kFrontRows || topk.tokens == 1) {
    route_few(route, s.route, {id >= 0, warp, lane, id});
    return;
  }
  __syncwarp();
  cluster::wait();  // block 0 is there
  if (id >= 0) cluster::store_to_first(&s.ids[block * kRows + warp][lane], id);
  __syncwarp();
  cluster::arrive();
  cluster::wait();
  if (block != 0) return;
  const auto top_k = static_cast<int32_t>(topk.router.top_k);
  const int32_t token = thread / 8, j = thread % 8;
  const bool is_slot = token < static_cast<int32_t>(topk.tokens) && j < top_k;
  route_few(route, s.route, {is_slot, token, j, is_slot ? s.ids[token][j] : -1});
}

// Blocks of the cluster.
inline unsigned front_cluster(int64_t tokens) {
  unsigned blocks = 1;
  while (blocks < tokens) blocks *= 2;
  return blocks;
}

}  // namespace octet::cuda
