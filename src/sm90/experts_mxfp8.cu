// SPDX-License-Identifier: Apache-2.0
// What belongs to the experts' kernel on the host, and the launch before it where x is quantised already.
#include <string>

#include "cuda/launch.h"
#include "routing/record.h"
#include "sm90/experts_mxfp8.h"
#include "sm90/experts_plan.h"
#include "sm90/make_ready.cuh"

namespace octet::sm90 {
namespace {

constexpr int kThreads = 256, kBlocks = 64;

struct MakeReadyArgs {
  const uint8_t *x_quant, *x_scale;
  uint8_t* x;
  int tokens, hidden, padded;  // padded: H in whole records
  HandOver hand_over;
};

__global__ __launch_bounds__(kThreads) void make_ready_kernel(
    const __grid_constant__ MakeReadyArgs a) {
  cuda::let_next_begin();
  cuda::wait_for_previous();
  const int first = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  constexpr int kAll = kBlocks * kThreads;
  const int of_a_row = a.padded / 8, rows = ActivationRecord::padded_rows(a.tokens);
  for (int i = first; i < rows * of_a_row; i += kAll) {  // eight codes
    const int row = i / of_a_row, k = i % of_a_row * 8;
    uint2 codes = make_uint2(0, 0);
    uint32_t scale = 127;
    if (row < a.tokens && k < a.hidden) {
      codes = *reinterpret_cast<const uint2*>(a.x_quant + int64_t{row} * a.hidden + k);
      scale = a.x_scale[(int64_t{row} * a.hidden + k) / kMxBlock];
    }
    store_record(a.x, rows, row, k, codes, scale);
  }
  clear_hand_over(a.hand_over, first, kAll);
}

Status want(const std::string& what, int64_t found, const std::string& wanted) {
  return unsupported(what + " " + std::to_string(found) + ", want " + wanted);
}

}  // namespace

ExpertsWorkspace experts_workspace(const cuda::ExpertGemmArgs& args) {
  constexpr int64_t kAlign = 256;
  const int rows = ActivationRecord::padded_rows(static_cast<int>(args.tokens));
  const auto records = [&](const layouts::StreamMatrix& m) {
    return m.pairs * int64_t{ActivationRecord::bytes(rows)};
  };
  ExpertsWorkspace w{};
  w.h_at = ExpertsWorkspace::kXAt + round_up(records(args.weights.sizes.w13), kAlign);
  w.h_bytes = records(args.weights.sizes.w2) *
              routing::max_ctas(args.tokens, args.top_k, args.weights.experts);
  w.bytes = w.h_at + round_up(w.h_bytes, kAlign);
  return w;
}

HandOver hand_over_of(const ExpertsArgs& args) {
  const cuda::ExpertGemmArgs& g = args.gemm;
  auto* const workspace = static_cast<uint8_t*>(g.workspace);
  const ExpertsWorkspace at = experts_workspace(g);
  return {.tickets = reinterpret_cast<uint32_t*>(workspace + ExpertsWorkspace::kTicketsAt),
          .h = workspace + at.h_at,
          .rows = args.y == nullptr ? nullptr : reinterpret_cast<uint8_t*>(g.rows),
          .h_bytes = at.h_bytes,
          .rows_bytes = g.tokens * g.top_k * g.hidden * 2};
}

Status check_experts(const ExpertsArgs& all) {
  const cuda::ExpertGemmArgs& args = all.gemm;
  const cuda::StreamWeights& w = args.weights;
  if (args.activations != Activations::kMxfp8) return unsupported("activations bf16, want mxfp8");
  if (w.sizes.w13.format != WeightFormat::kMxfp4) return unsupported("weights nvfp4, want mxfp4");
  if (w.order != layouts::StreamOrder::kE4m3)
    return unsupported("weights in the order bf16, want e4m3");
  if (args.tokens < 1 || args.tokens > kMostTokens) return want("T", args.tokens, "1 to 8");
  if (args.top_k < 1 || args.top_k > kMostTopK) return want("k", args.top_k, "1 to 8");
  if (args.hidden % kMxBlock != 0) return want("hidden", args.hidden, "a multiple of 32");
  if (args.intermediate % kMxBlock != 0)
    return want("intermediate", args.intermediate, "a multiple of 32");
  if (w.experts > routing::kRouteMaxExperts) return want("experts", w.experts, "at most 512");
  if (all.y != nullptr && all.topk_weights == nullptr)
    return unsupported("no topk_weights, want those of y");
  if (w.sizes.down_start != 0)
    return want("h begins at element", w.sizes.down_start, "0 of a scale block");
  const int64_t bytes = experts_workspace(args).bytes;
  if (args.workspace_bytes < bytes)
    return want("workspace bytes", args.workspace_bytes, "at least " + std::to_string(bytes));
  if (const int shared = experts_shared_bytes(args); shared > kMostSharedBytes)
    return want("shared memory of a CTA", shared, "at most " + std::to_string(kMostSharedBytes));
  return {};
}

int experts_ctas() {
  int device = 0, sms = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  return sms;
}

Status launch_make_ready(const ExpertsArgs& args, cudaStream_t stream) {
  const cuda::ExpertGemmArgs& g = args.gemm;
  auto* const workspace = static_cast<uint8_t*>(g.workspace);
  const MakeReadyArgs a{
      .x_quant = g.x_quant,
      .x_scale = g.x_scale,
      .x = workspace + ExpertsWorkspace::kXAt,
      .tokens = static_cast<int>(g.tokens),
      .hidden = static_cast<int>(g.hidden),
      .padded = ActivationRecord::count(static_cast<int>(g.hidden)) * ActivationRecord::kWidth,
      .hand_over = hand_over_of(args)};
  return cuda::launch("make_ready", make_ready_kernel, dim3(kBlocks), kThreads, a, stream);
}

}  // namespace octet::sm90
