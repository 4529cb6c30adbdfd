// SPDX-License-Identifier: Apache-2.0
// experts_mxfp8_mxfp4_sm90: the routed experts of a decode step in one launch.
//
//   logits, x ──► front (experts_front.cuh) ──────────┐
//   or: x records (activation_record.h), record, ─────┤  kLoader ──► ring of stages ──► kMultiply ──► h records ─┐
//       permuted (cuda/route.cuh)                     │     ▲                              │    ▲                │ by value, through L2
//   weights (layouts/stream_fp4.h) ───────────────────┘  kScheduler ◄── tickets            │    └──── kAux ◄─────┘
//                                                                                          └──► rows [T k, H] bf16 ──► a few CTAs ──► y [T, H] bf16
//
// Shapes, alignment, errors: experts_mxfp8.h. Order of work and sums: work.h. Rounding: stage.cuh (products), cuda/swiglu.cuh, hidden_mxfp8.cuh, one to bf16 a
// row. Truth: reference::layer. Hand-over: experts_shared.cuh. Why it cannot hang, what was tried: docs/kernels/gemm_mxfp8.md.
#include <string>

#include "sm90/experts_aux.cuh"
#include "sm90/experts_finalize.cuh"
#include "sm90/experts_load.cuh"
#include "sm90/experts_multiply.cuh"
#include "sm90/experts_mxfp8.h"
#include "sm90/experts_schedule.cuh"

namespace octet::sm90 {
namespace {

constexpr const char* kName = "experts_mxfp8_mxfp4_sm90";

// By kMultiply: what others need of the routing record; thread 8 t + j of the first two warps has slot j of token t.
__device__ __forceinline__ void read_routing(const ExpertsKernelArgs& a, Shared& s,
                                             const int32_t* record, int thread) {
  read_tiles(s.tiles, record, a.most_tiles, thread, ExpertsPlan::kComputeThreads);
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

// By kMultiply: who is routed where, and x. The choice once for nothing before the wait: code that a launch meets for the first time comes
// slowly.
__device__ __forceinline__ void begin(const ExpertsKernelArgs& a, Shared& s, const Rings& rings,
                                      int thread) {
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
      cuda::meet(ExpertsPlan::kComputeThreads, kFront);
      make_tiles(s, masks, thread);
    }
  } else {
    cuda::meet(ExpertsPlan::kThreads, kBegun);
    cuda::wait_for_previous();
    ptx::wait(s.record_full, 0);
    read_routing(a, s, rings.record(), thread);
  }
  cuda::meet(ExpertsPlan::kThreads - cuda::kWarp, kTilesRead);
  if (has_front) place_slots(a, s, masks, expert, thread);
  cuda::arrive(kPlacing, kPlaced);
  if (thread < s.num_tiles)
    s.limits[thread] =
        a.limit != nullptr ? __ldg(a.limit + s.tiles[thread].expert) : Swiglu{}.limit;
  if (has_front) {
    bring_x(a, s, rings, thread);
  } else {
    ptx::wait(s.x_full, 0);
  }
  cuda::meet(ExpertsPlan::kComputeThreads, kFront);
  if (blockIdx.x != 0) return;
  if (thread < a.tokens * a.top_k) a.slot_row[thread] = s.slot_row[thread];
  if (has_front) keep_choice(a, s, thread);
}

template <int kPairs, bool kOneLeaf, bool kAnyScale>
__global__ __launch_bounds__(ExpertsPlan::kThreads,
                             1) void experts_kernel(const __grid_constant__ ExpertsKernelArgs a) {
  extern __shared__ __align__(128) uint8_t memory[];
  __shared__ Shared s;
  const Rings rings(memory, a.plan);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / cuda::kWarp,
            lane = thread % cuda::kWarp;
  init_shared(s, thread);
  // Who has a front to do needs no barrier of those before kTilesRead.
  if (warp < ExpertsPlan::kComputeWarps) {
    if (a.front.x != nullptr) cuda::arrive(ExpertsPlan::kThreads, kBegun);
  } else {
    cuda::meet(ExpertsPlan::kThreads, kBegun);
  }
  if (warp == ExpertsPlan::kSchedulerWarp) {
    schedule(a, s, rings, lane);
    return;
  }
  if (warp == ExpertsPlan::kLoaderWarp) {
    load(a, s, rings, lane);
    return;
  }
  if (warp < ExpertsPlan::kComputeWarps) {
    begin(a, s, rings, thread);
    multiply<kPairs, kOneLeaf, kAnyScale>(a, s, rings, warp, lane);
  } else {
    cuda::wait_for_previous();
    const int aux = warp - ExpertsPlan::kLoaderWarp - 1;
    prepare(a, s, aux, lane);
    cuda::meet(ExpertsPlan::kThreads - cuda::kWarp, kTilesRead);
    cuda::meet(kPlacing, kPlaced);
    bring_h(a, s, rings, aux, lane);
  }
  if (static_cast<int>(blockIdx.x) < finalizers(a))
    finalize(a, s, warp < ExpertsPlan::kComputeWarps ? thread : thread - 2 * cuda::kWarp);
}

using Kernel = void (*)(ExpertsKernelArgs);
struct Variant {
  int pairs;  // of stages of the first matrices; of the second ones as many or one less
  Kernel kernel;
};
// Of second matrices that are one leaf: with more, four sums of a warp would spill.
constexpr Variant kVariants[] = {
    {10, experts_kernel<10, true, false>},
    {9, experts_kernel<9, true, false>},
    {8, experts_kernel<8, true, false>},
};
Kernel kernel_of(const ExpertsPlan& p, bool is_wide) {
  if (is_wide) return experts_kernel<0, false, true>;
  for (const Variant& v : kVariants)
    if (v.pairs == p.w13.stage_pairs && p.w2.leaves.count == 1) return v.kernel;
  return experts_kernel<0, false, false>;
}

constexpr int kMostDynamicBytes = (kMostSharedBytes - static_cast<int>(sizeof(Shared))) / 128 * 128;

}  // namespace

int experts_shared_bytes(const cuda::ExpertGemmArgs& args) {
  return experts_plan(args, kMostDynamicBytes).dynamic_bytes() + static_cast<int>(sizeof(Shared));
}

Status prepare_experts() {
  const auto allow = [](Kernel kernel) {
    return cuda::allow_shared_bytes(kName, kernel, kMostDynamicBytes);
  };
  for (const Variant& v : kVariants) OCTET_RETURN_IF_ERROR(allow(v.kernel));
  OCTET_RETURN_IF_ERROR(allow(experts_kernel<0, false, false>));
  return allow(experts_kernel<0, false, true>);
}

Status launch_experts(const ExpertsArgs& args, int ctas, cudaStream_t stream) {
  if (ctas < 1 || ctas > kMostCtas)
    return unsupported("CTAs " + std::to_string(ctas) + ", want 1 to " + std::to_string(kMostCtas));
  const cuda::ExpertGemmArgs& g = args.gemm;
  const ExpertsWorkspace at = experts_workspace(g);
  auto* const workspace = static_cast<uint8_t*>(g.workspace);
  const ExpertsKernelArgs a{
      .plan = experts_plan(g, kMostDynamicBytes),
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
      .y = args.y};
  return cuda::launch(kName, kernel_of(a.plan, g.weights.is_wide),
                      dim3(static_cast<unsigned>(ctas)), ExpertsPlan::kThreads, a, stream,
                      static_cast<size_t>(a.plan.dynamic_bytes()));
}

}  // namespace octet::sm90
