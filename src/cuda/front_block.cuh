// SPDX-License-Identifier: Apache-2.0
// Top-k and the record of a decode step by one block, or, of more than four rows on SM90 and later, by a cluster, a block a row:
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

// kRows: of a block; as many as a decode step has, or, in a cluster, one.
template <int kRows>
struct FrontShared {
  TopkShared<kRows> topk;
  RouteShared route;
  int32_t ids[kFrontRows][8];
};

namespace cluster {

// The halves of a barrier of all threads of the cluster: what they wrote before arrive() is seen after wait().
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

// Before the first wait for an earlier kernel, by all threads of the blocks that route.
template <int kRows>
__device__ __forceinline__ void begin_front() {
  if (kRows < kFrontRows) cluster::arrive();
}

// By all threads of the blocks that route, `block` being this one's number: one block, or all of the first cluster.
template <int kKeys, int kRows>
__device__ __forceinline__ void front_block(const TopkArgs& topk, const RouteArgs& route,
                                            FrontShared<kRows>& s, int block) {
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t warp = thread / kWarp, lane = thread % kWarp;
  const int id = topk_block<kKeys, kRows>(topk, int64_t{block} * kRows, s.topk, [&] {
    if (block == 0) begin_few(route, s.route);
  });
  if (kRows == kFrontRows) {
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

// Blocks that route, of at most kFrontRows rows: one for a few, whose ids need not meet then.
inline unsigned front_cluster(int64_t tokens, bool has_clusters) {
  constexpr int64_t kFewRows = 4;
  if (!has_clusters || tokens <= kFewRows) return 1;
  unsigned blocks = 1;
  while (blocks < tokens) blocks *= 2;
  return blocks;
}

// The kernel with room for `experts`: those of the common models, and all.
template <class Kernel>
Kernel with_keys(int64_t experts, Kernel eight, Kernel twelve, Kernel sixteen) {
  return experts <= 8 * kWarp ? eight : experts <= 12 * kWarp ? twelve : sixteen;
}

}  // namespace octet::cuda
