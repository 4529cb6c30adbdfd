// SPDX-License-Identifier: Apache-2.0
// What both expert GEMMs' warps do alike: beginning, copies of weights, products, sums to registers, end. gemm_shared.cuh has the hand-over.
//
// m = stored weight rows, n = rows of a tile (GEMM1: tokens), k = H or Ip.
#pragma once

#include <cstdint>

#include "cuda/async_copy.cuh"
#include "cuda/ptx/tma.cuh"
#include "cuda/ptx/warp.cuh"
#include "sm100/gemm_shared.cuh"
#include "sm100/ptx/tcgen05.cuh"
#include "sm100/ptx/tmem.cuh"

namespace octet::sm100 {

// By all threads, before a barrier of them all.
template <class Traits>
__device__ __forceinline__ void begin(const GemmKernelArgs& a, const Shared<Traits>& s, int warp) {
  Control<Traits>& c = s.control();
  if (warp == Role::kWeights && ptx::elect_one()) {
    ptx::prefetch_map(a.weights);
    ptx::prefetch_map(a.tokens);
    for (int i = 0; i < a.stages; ++i) {
      ptx::init_barrier(c.full[i], 2);
      ptx::init_barrier(c.empty[i], 1);
    }
    for (int i = 0; i < kSumStages; ++i) {
      ptx::init_barrier(c.sums_full[i], 1);
      ptx::init_barrier(c.sums_empty[i], Role::kStoreWarps);
    }
    ptx::fence_barrier_init();
  }
  __syncwarp();
  if (warp == Role::kAllocate) ptx::allocate_columns(c.tensor_memory, kTensorColumns);
}

// By all threads, once their roles are done. Sums have been read by then, and fenced for: take_sums().
template <class Traits>
__device__ __forceinline__ void end(const Shared<Traits>& s, int warp) {
  __syncwarp();
  __syncthreads();
  if (warp != Role::kAllocate) return;
  ptx::fence_after_signal();
  ptx::free_columns(s.control().tensor_memory, kTensorColumns);
}

// kWeights, one thread. Evict first: the weights are read once a layer, and what x, h and rows need of L2 should stay.
template <class Traits>
__device__ __forceinline__ void load_weights(const GemmKernelArgs& a, const Shared<Traits>& s) {
  using Layout = StageLayout<Traits>;
  Control<Traits>& c = s.control();
  const uint64_t policy = cuda::evict_first_policy();
  RingPlace at;
  for (Items i = items_of(a, c); i.next();) {
    const int row = record_of(a, c).expert(i.tile) * a.expert_rows + i.block * kBlockRows;
    const uint8_t* scales =
        a.weight_scales + int64_t{row / kBlockRows} * a.chunks * kScaleAtomBytes;
    for (int k = 0; k < a.chunks; k += Traits::kChunks, at.next(a.stages)) {
      const int count = min(Traits::kChunks, a.chunks - k);
      uint64_t& full = c.full[at.stage];
      uint8_t* const to = s.stage(at.stage);
      ptx::wait(c.empty[at.stage], at.parity ^ 1U);
      ptx::arrive_expecting(full,
                            static_cast<uint32_t>(count) * (kPackedChunkBytes + kScaleAtomBytes));
      for (int j = 0; j < count; ++j)
        ptx::copy_tile(to + Layout::weights_at(j), a.weights, (k + j) * kChunk, row, full, policy);
      ptx::copy_bytes(to + Layout::weight_scales_at(0), scales + int64_t{k} * kScaleAtomBytes,
                      static_cast<uint32_t>(count) * kScaleAtomBytes, full, policy);
    }
  }
  // The last commits arrive before the CTA ends: no order between their arrivals and that on sums_full is promised.
  for (int i = 0; i < a.stages; ++i, at.next(a.stages))
    ptx::wait(c.empty[at.stage], at.parity ^ 1U);
}

// The four products of a chunk; `adds`: to what is in `sums`, from the first one on.
__device__ __forceinline__ void multiply_chunk(uint32_t sums, uint32_t weights, uint32_t tokens,
                                               uint32_t scales, bool adds) {
  constexpr uint32_t kStep = 32 / 16;  // 32 bytes along K, in units of the descriptor
  const uint64_t a = operand_descriptor(weights), b = operand_descriptor(tokens);
#pragma unroll
  for (uint32_t i = 0; i < kProductsOfChunk; ++i)
    ptx::multiply(sums, a + i * kStep, b + i * kStep, instruction_descriptor(i), scales,
                  scales + kScaleColumns, adds || i != 0);
}

// kMultiply, one thread. Each stage has its own columns of scales: a copy of scales is not ordered behind earlier products by itself
// (PTX ISA 9.7.16.6.2), but it follows full, which follows empty, which those products' commit signals.
template <class Traits>
__device__ __forceinline__ void multiply_items(const GemmKernelArgs& a, const Shared<Traits>& s) {
  using Layout = StageLayout<Traits>;
  Control<Traits>& c = s.control();
  const uint32_t tensor_memory = c.tensor_memory;
  RingPlace at;
  for (Items i = items_of(a, c); i.next();) {
    const uint32_t sums = tensor_memory + static_cast<uint32_t>(sums_of(i.turn) * kSumColumns);
    ptx::wait(c.sums_empty[sums_of(i.turn)], sums_parity(i.turn) ^ 1U);
    for (int k = 0; k < a.chunks; k += Traits::kChunks, at.next(a.stages)) {
      const int count = min(Traits::kChunks, a.chunks - k);
      ptx::wait(c.full[at.stage], at.parity);
      ptx::fence_after_signal();
      const uint32_t from = ptx::shared_address(s.stage(at.stage));
      for (int j = 0; j < count; ++j) {
        const uint32_t scales = tensor_memory + scale_columns<Traits>(at.stage, j);
        const uint32_t token_scales = Traits::kScalesInStage
                                          ? from + static_cast<uint32_t>(Layout::token_scales_at(j))
                                          : ptx::shared_address(s.x_scales(k + j));
        ptx::copy_scales(
            scales, scales_descriptor(from + static_cast<uint32_t>(Layout::weight_scales_at(j))));
        ptx::copy_scales(scales + kScaleColumns, scales_descriptor(token_scales));
        multiply_chunk(sums, from + static_cast<uint32_t>(Layout::weights_at(j)),
                       from + static_cast<uint32_t>(Layout::tokens_at(j)), scales, k + j != 0);
      }
      ptx::commit(c.empty[at.stage]);
    }
    ptx::commit(c.sums_full[sums_of(i.turn)]);
  }
}

// kStore, all lanes: this warp's 32 weight rows of the item's sums, f32 bits as ptx::load_eight_columns() says.
template <class Traits>
__device__ __forceinline__ void take_sums(Control<Traits>& c, const Items& i, int quarter, int lane,
                                          uint32_t (&sums)[8]) {
  ptx::wait(c.sums_full[sums_of(i.turn)], sums_parity(i.turn));
  ptx::fence_after_signal();
  ptx::load_eight_columns(sums, c.tensor_memory + (static_cast<uint32_t>(quarter) * 32U << 16) +
                                    static_cast<uint32_t>(sums_of(i.turn) * kSumColumns));
  ptx::wait_for_loads(sums);
  ptx::fence_before_signal();
  __syncwarp();
  if (lane == 0) ptx::arrive(c.sums_empty[sums_of(i.turn)]);
}

}  // namespace octet::sm100
