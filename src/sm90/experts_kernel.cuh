// SPDX-License-Identifier: Apache-2.0
// The experts' kernel, for whatever formats its Traits name; what it launches with. docs/kernels/gemm_mxfp8.md, experts_bf16_sm90.md.
//
//   logits, x ──► front (experts_front.cuh) ──────────┐
//   or: x, record, permuted (cuda/route.cuh) ─────────┤  kLoader ──► ring of stages ──► kMultiply ──► h records ─┐
//                                                     │     ▲                              │    ▲                │ by value, through L2
//   weights (layouts/stream_fp4.h) ───────────────────┘  kScheduler ◄── tickets            │    └──── kAux ◄─────┘
//                                                                                          └──► rows [T k, H] bf16 ──► a few CTAs ──► y [T, H] bf16
#pragma once

#include <string>

#include "sm90/experts_aux.cuh"
#include "sm90/experts_finalize.cuh"
#include "sm90/experts_load.cuh"
#include "sm90/experts_multiply.cuh"
#include "sm90/experts_of.h"
#include "sm90/experts_schedule.cuh"

namespace octet::sm90 {

// By kMultiply: what others need of the routing record; thread 8 t + j of the first two warps has slot j of token t.
template <class Traits>
__device__ __forceinline__ void read_routing(const ExpertsKernelArgs<Traits>& a, Shared& s,
                                             const int32_t* record, int thread) {
  read_tiles(s.tiles, record, a.most_tiles, thread, ExpertsRoles::kComputeThreads);
  if (thread == 0) s.num_tiles = record[1];
  if (thread >= kMostTokens * 8) return;
  const int token = thread / 8, j = thread % 8, slot = token * a.top_k + j;
  const bool is_slot = token < a.tokens && j < a.top_k;
  const int row = is_slot ? __ldcg(a.permuted + slot) : -1;
  // An id that a token has twice has one row, in its first slot.
  const uint32_t same = __match_any_sync(cuda::kWholeWarp, is_slot ? row : -2 - thread) &
                        0xFFU << (thread % cuda::kWarp / 8 * 8);
  const int first = slot - j + (__ffs(static_cast<int>(same)) - 1) % 8;
  if (row >= 0 && first == slot) s.slots[row] = static_cast<uint8_t>(slot);
  if (is_slot) s.slot_row[slot] = static_cast<int8_t>(row < 0 ? -1 : first);
  if (is_slot && a.y != nullptr) s.weights[slot] = __ldg(a.topk_weights + slot);
}

// What sums of a tile are multiplied by; weights were decoded times 1 / unshift.
template <WeightFormat format>
__device__ __forceinline__ void read_factors(const ExpertsKernelArgs<Bf16Fp4<format>>& a,
                                             SharedOf<Bf16Fp4<format>>& s, float unshift,
                                             int tile) {
  const auto times = [&](const float* alpha) {
    return alpha != nullptr ? __fmul_rn(unshift, __ldg(alpha + s.tiles[tile].expert)) : unshift;
  };
  s.gate_factor[tile] = times(a.gate_alpha);
  s.up_factor[tile] = times(a.up_alpha);
  s.down_factor[tile] = times(a.down_alpha);
}

// By kMultiply: who is routed where, and x. The choice once for nothing before the wait: code that a launch meets for the first time comes
// slowly.
template <class Traits>
__device__ __forceinline__ void begin(const ExpertsKernelArgs<Traits>& a, SharedOf<Traits>& s,
                                      const Rings<Traits>& rings, float unshift, int thread) {
  const bool has_front = a.front.x != nullptr;
  auto& masks = *reinterpret_cast<RouteMasks*>(rings.parts);
  int expert = -1;
  if (has_front) {
    auto& shared = *reinterpret_cast<cuda::TopkShared*>(rings.base);
#pragma unroll 1
    for (int step = -1; step < 1; ++step) {
      if (step == 0) cuda::wait_for_previous();
      expert = choose(a, s, shared, masks, thread, step < 0);
      ptx::fence_shared_for_async();  // copies of weights follow where the front was
      cuda::meet(ExpertsRoles::kComputeThreads, kFront);
      make_tiles(s, masks, thread);
    }
  } else {
    cuda::meet(ExpertsRoles::kThreads, kBegun);
    cuda::wait_for_previous();
    ptx::wait(s.record_full, 0);
    read_routing(a, s, rings.record(), thread);
  }
  cuda::meet(ExpertsRoles::kThreads - cuda::kWarp, kTilesRead);
  if (has_front) place_slots(a, s, masks, expert, thread);
  cuda::arrive(kPlacing, kPlaced);
  if (thread < s.num_tiles)
    s.limits[thread] =
        a.limit != nullptr ? __ldg(a.limit + s.tiles[thread].expert) : Swiglu{}.limit;
  if constexpr (Traits::kActivations == Activations::kBf16) {
    if (thread < s.num_tiles) read_factors(a, s, unshift, thread);
  }
  if (has_front || !Traits::kHandsXOver) {
    bring_x(a, s, rings, thread);
  } else {
    ptx::wait(s.x_full, 0);
  }
  cuda::meet(ExpertsRoles::kComputeThreads, kFront);
  if (blockIdx.x != 0) return;
  if (thread < a.tokens * a.top_k) a.slot_row[thread] = s.slot_row[thread];
  if (has_front) keep_choice(a, s, thread);
}

template <class Traits, int kPairs, bool kOneLeaf, bool kAnyScale>
__global__ __launch_bounds__(ExpertsRoles::kThreads, 1) void experts_kernel(
    const __grid_constant__ ExpertsKernelArgs<Traits> a) {
  extern __shared__ __align__(128) uint8_t memory[];
  __shared__ SharedOf<Traits> s;
  const Rings<Traits> rings(memory, a.plan);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / cuda::kWarp,
            lane = thread % cuda::kWarp;
  init_shared(s, thread);
  // Who has a front to do needs no barrier of those before kTilesRead.
  if (warp < ExpertsRoles::kComputeWarps) {
    if (a.front.x != nullptr) cuda::arrive(ExpertsRoles::kThreads, kBegun);
  } else {
    cuda::meet(ExpertsRoles::kThreads, kBegun);
  }
  if (warp == ExpertsRoles::kSchedulerWarp) {
    schedule(a, s, rings, lane);
    return;
  }
  if (warp == ExpertsRoles::kLoaderWarp) {
    load(a, s, rings, lane);
    return;
  }
  if (warp < ExpertsRoles::kComputeWarps) {
    constexpr int kShift = cuda::StreamTraits<Traits::kWeights, Traits::kOrder, kAnyScale>::kShift;
    begin(a, s, rings, static_cast<float>(1 << kShift), thread);
    multiply<kPairs, kOneLeaf, kAnyScale>(a, s, rings, warp, lane);
  } else {
    cuda::wait_for_previous();
    const int aux = warp - ExpertsRoles::kLoaderWarp - 1;
    prepare(a, s, aux, lane);
    cuda::meet(ExpertsRoles::kThreads - cuda::kWarp, kTilesRead);
    cuda::meet(kPlacing, kPlaced);
    bring_h(a, s, rings, aux, lane);
  }
  if (static_cast<int>(blockIdx.x) < finalizers(a))
    finalize(a, s, warp < ExpertsRoles::kComputeWarps ? thread : thread - 2 * cuda::kWarp);
}

// The kernels of the common shapes, and those that take any.
template <class Traits>
struct ExpertsVariants {
  using Kernel = void (*)(ExpertsKernelArgs<Traits>);
  struct Variant {
    int pairs;  // of stages of the first matrices; of the second ones as many or one less
    Kernel kernel;
  };
  // Of second matrices that are one leaf: with more, four sums of a warp would spill.
  static constexpr Variant kUnrolled[3] = {
      {10, experts_kernel<Traits, 10, true, false>},
      {9, experts_kernel<Traits, 9, true, false>},
      {8, experts_kernel<Traits, 8, true, false>},
  };
  static constexpr Kernel kAnyShape = experts_kernel<Traits, 0, false, false>,
                          kAnyScale = experts_kernel<Traits, 0, false, true>;
  static Kernel of(const ExpertsPlan<Traits>& p, bool is_wide) {
    if (is_wide) return kAnyScale;
    for (const Variant& v : kUnrolled)
      if (v.pairs == p.w13.stage_pairs && p.w2.leaves.count == 1) return v.kernel;
    return kAnyShape;
  }
};

template <class Traits>
int ExpertsOf<Traits>::most_dynamic_bytes() {
  return (kMostSharedBytes - static_cast<int>(sizeof(SharedOf<Traits>))) / 128 * 128;
}
template <class Traits>
int ExpertsOf<Traits>::shared_bytes(const cuda::ExpertGemmArgs& args) {
  return experts_plan<Traits>(args, most_dynamic_bytes()).dynamic_bytes() +
         static_cast<int>(sizeof(SharedOf<Traits>));
}

template <class Traits>
Status ExpertsOf<Traits>::prepare() {
  using Variants = ExpertsVariants<Traits>;
  const auto allow = [](typename Variants::Kernel kernel) {
    return cuda::allow_shared_bytes(Traits::kName, kernel, most_dynamic_bytes());
  };
  for (const auto& v : Variants::kUnrolled) OCTET_RETURN_IF_ERROR(allow(v.kernel));
  OCTET_RETURN_IF_ERROR(allow(Variants::kAnyShape));
  return allow(Variants::kAnyScale);
}

template <class Traits>
Status ExpertsOf<Traits>::launch(const ExpertsArgs& args, int ctas, cudaStream_t stream) {
  const cuda::ExpertGemmArgs& g = args.gemm;
  const ExpertsWorkspace at = experts_workspace(g);
  auto* const workspace = static_cast<uint8_t*>(g.workspace);
  const ExpertsKernelArgs<Traits> a{
      .plan = experts_plan<Traits>(g, most_dynamic_bytes()),
      .front = {.x = args.front.x,
                .topk = args.front.topk,
                .first_expert = args.front.first_expert,
                .experts = g.weights.experts,
                .permuted = args.front.permuted,
                .record = args.front.record},
      .alpha = g.alpha,
      .beta = g.beta,
      .weights = g.weights.data,
      .expert_bytes = g.weights.sizes.expert_bytes(),
      .w2_offset = g.weights.sizes.w2_offset(),
      .limit = g.weights.limit,
      .gate_bias = g.weights.gate_bias,
      .up_bias = g.weights.up_bias,
      .down_bias = g.weights.down_bias,
      .record = g.record,
      .permuted = g.permuted,
      .tokens = static_cast<int>(g.tokens),
      .top_k = static_cast<int>(g.top_k),
      .hidden = static_cast<int>(g.hidden),
      .most_tiles = static_cast<int>(routing::max_ctas(g.tokens, g.top_k, g.weights.experts)),
      .word = reinterpret_cast<uint64_t*>(workspace + ExpertsWorkspace::kWordAt),
      .halves = workspace + ExpertsWorkspace::kHalvesAt,
      .half_bytes = at.half_bytes,
      .h_at = at.h_at,
      .rows_at = at.rows_at,
      .rows = args.y == nullptr ? g.rows : nullptr,
      .slot_row = g.slot_row,
      .topk_weights = args.topk_weights,
      .shared = args.shared,
      .scale = args.scale,
      .y = args.y,
      .x = g.x,
      .gate_alpha = g.weights.gate_alpha,
      .up_alpha = g.weights.up_alpha,
      .down_alpha = g.weights.down_alpha};
  return cuda::launch(Traits::kName, ExpertsVariants<Traits>::of(a.plan, g.weights.is_wide),
                      dim3(static_cast<unsigned>(ctas)), ExpertsRoles::kThreads, a, stream,
                      static_cast<size_t>(a.plan.dynamic_bytes()));
}

}  // namespace octet::sm90
