// SPDX-License-Identifier: Apache-2.0
// experts_mxfp8_mxfp4_sm90: the routed experts of a decode step in one launch.
//
//   x records (activation_record.h) ─────┐  kLoader ──► ring of stages ──► kMultiply ──► h records ─┐
//   record, permuted (cuda/route.cuh) ───┤     ▲                              │    ▲                │ by value, through L2
//   weights (layouts/stream_fp4.h) ──────┘  kScheduler ◄── tickets            │    └──── kAux ◄─────┘
//                                                                             └──► rows [T k, H] bf16 ──► kAux ──► y [T, H] bf16
//
// Shapes, alignment, errors: experts_mxfp8.h. Order of work and sums: work.h. Rounding: stage.cuh (products), cuda/swiglu.cuh, hidden_mxfp8.cuh, one to bf16 a
// row. Truth: reference::layer. Hand-over: experts_shared.cuh. Why it cannot hang, what was tried: docs/kernels/gemm_mxfp8.md.

#include "sm90/experts_aux.cuh"
#include "sm90/experts_load.cuh"
#include "sm90/experts_multiply.cuh"
#include "sm90/experts_mxfp8.h"
#include "sm90/experts_schedule.cuh"

namespace octet::sm90 {
namespace {

constexpr const char* kName = "experts_mxfp8_mxfp4_sm90";

// By the compute and the aux threads; thread 8 t + j of the first two warps has slot j of token t.
__device__ __forceinline__ void read_routing(const ExpertsKernelArgs& a, Shared& s,
                                             const int32_t* record, int thread) {
  const int token = thread / 8, j = thread % 8, slot = token * a.top_k + j;
  const bool is_slot = token < a.tokens && j < a.top_k;
  const int row = is_slot ? __ldcg(a.permuted + slot) : -1;
  ptx::wait(s.record_full, 0);
  if (thread < ExpertsPlan::kComputeThreads) {
    read_tiles(s.tiles, record, a.most_tiles, thread, ExpertsPlan::kComputeThreads);
  } else {
    for (int i = thread - ExpertsPlan::kComputeThreads; i < a.most_tiles;
         i += ExpertsPlan::kAuxWarps * cuda::kWarp)
      s.limits[i] = a.limit != nullptr ? __ldg(a.limit + record[4 + i]) : Swiglu{}.limit;
  }
  if (thread < kMostTokens * 8) {
    // An id that a token has twice has one row, in its first slot.
    const uint32_t same = __match_any_sync(cuda::kWholeWarp, is_slot ? row : -2 - thread) &
                          0xFFU << (thread % cuda::kWarp / 8 * 8);
    const int first = slot - j + (__ffs(static_cast<int>(same)) - 1) % 8;
    if (row >= 0 && first == slot) s.slots[row] = static_cast<uint8_t>(slot);
    if (is_slot) s.slot_row[slot] = static_cast<int8_t>(row < 0 ? -1 : first);
    if (is_slot && blockIdx.x == 0) a.slot_row[slot] = row < 0 ? -1 : first;
  }
  ptx::sync_threads(kTilesRead, ExpertsPlan::kThreads - ExpertsPlan::kBringingThreads);
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
  __syncthreads();
  if (warp == ExpertsPlan::kSchedulerWarp) {
    schedule(a, s, rings, lane);
    return;
  }
  if (warp == ExpertsPlan::kLoaderWarp) {
    load(a, s, rings, lane);
    return;
  }
  cuda::wait_for_previous();
  const bool multiplies = warp < ExpertsPlan::kComputeWarps;
  read_routing(a, s, rings.record(), multiplies ? thread : thread - ExpertsPlan::kBringingThreads);
  if (multiplies) {
    ptx::wait(s.x_full, 0);
    multiply<kPairs, kOneLeaf, kAnyScale>(a, s, rings, warp, lane);
    return;
  }
  const int aux = warp - ExpertsPlan::kLoaderWarp - 1;
  bring_h(a, s, rings, aux, lane);
  if (a.y == nullptr) return;
  ptx::wait(s.rows_done, 0);
  finalize(a, s, aux * cuda::kWarp + lane);
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
  for (const Variant& v : kVariants) {
    if (Status s = cuda::allow_shared_bytes(kName, v.kernel, kMostDynamicBytes); !s.ok()) return s;
  }
  if (Status s =
          cuda::allow_shared_bytes(kName, experts_kernel<0, false, false>, kMostDynamicBytes);
      !s.ok())
    return s;
  return cuda::allow_shared_bytes(kName, experts_kernel<0, false, true>, kMostDynamicBytes);
}

Status launch_experts(const ExpertsArgs& args, int ctas, cudaStream_t stream) {
  const cuda::ExpertGemmArgs& g = args.gemm;
  const ExpertsWorkspace at = experts_workspace(g);
  auto* const workspace = static_cast<uint8_t*>(g.workspace);
  const ExpertsKernelArgs a{
      .plan = experts_plan(g, kMostDynamicBytes),
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
      .x = workspace + ExpertsWorkspace::kXAt,
      .h = workspace + at.h_at,
      .tickets = reinterpret_cast<uint32_t*>(workspace + ExpertsWorkspace::kTicketsAt),
      .rows = g.rows,
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
