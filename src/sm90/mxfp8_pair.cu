// SPDX-License-Identifier: Apache-2.0
// What the two kernels of the pair have in common: checks, workspace, x in records.
#include <string>

#include "routing/record.h"
#include "sm90/arrange_x.cuh"
#include "sm90/launch.h"
#include "sm90/mxfp8_pair.h"
#include "sm90/mxfp8_pair_kernels.h"

namespace octet::sm90 {
namespace {

constexpr int kArrangeThreads = 256;

struct ArrangeArgs {
  const uint8_t *x_quant, *x_scale;
  uint8_t* x;
  int tokens, hidden, padded;  // padded: H in whole records
};

// Eight codes a thread.
__global__ __launch_bounds__(kArrangeThreads) void arrange_kernel(
    const __grid_constant__ ArrangeArgs a) {
  cuda::let_next_begin();
  cuda::wait_for_previous();
  const int i = static_cast<int>(blockIdx.x) * kArrangeThreads + static_cast<int>(threadIdx.x);
  const int of_a_row = a.padded / 8, rows = ActivationRecord::padded_rows(a.tokens);
  const int row = i / of_a_row, k = i % of_a_row * 8;
  if (row >= rows) return;
  uint2 codes = make_uint2(0, 0);
  uint32_t scale = 127;
  if (row < a.tokens && k < a.hidden) {
    codes = *reinterpret_cast<const uint2*>(a.x_quant + int64_t{row} * a.hidden + k);
    scale = a.x_scale[(int64_t{row} * a.hidden + k) / kMxBlock];
  }
  store_record(a.x, rows, row, k, codes, scale);
}

Status want(const std::string& what, int64_t found, const std::string& wanted) {
  return unsupported(what + " " + std::to_string(found) + ", want " + wanted);
}

}  // namespace

PairWorkspace pair_workspace(const cuda::ExpertGemmArgs& args) {
  constexpr int64_t kAlign = 256;
  const int rows = ActivationRecord::padded_rows(static_cast<int>(args.tokens));
  const auto records = [&](const layouts::StreamMatrix& m) {
    return m.pairs * int64_t{ActivationRecord::bytes(rows)};
  };
  PairWorkspace w{};
  w.x_bytes = round_up(records(args.weights.sizes.w13) + ActivationRecord::kSlackBytes, kAlign);
  w.h_at = PairWorkspace::kXAt + w.x_bytes;
  w.h_tile_bytes = records(args.weights.sizes.w2);
  w.bytes = w.h_at + round_up(w.h_tile_bytes *
                                  routing::max_ctas(args.tokens, args.top_k, args.weights.experts),
                              kAlign);
  return w;
}

Status check_pair(const cuda::ExpertGemmArgs& args) {
  const cuda::StreamWeights& w = args.weights;
  if (args.activations != Activations::kMxfp8) return unsupported("activations bf16, want mxfp8");
  if (w.sizes.w13.format != WeightFormat::kMxfp4) return unsupported("weights nvfp4, want mxfp4");
  if (w.order != layouts::StreamOrder::kE4m3)
    return unsupported("weights in the order bf16, want e4m3");
  if (args.tokens < 1 || args.tokens > kPairMostTokens) return want("T", args.tokens, "1 to 8");
  if (args.top_k < 1 || args.top_k > 8) return want("k", args.top_k, "1 to 8");
  if (args.hidden % kMxBlock != 0) return want("hidden", args.hidden, "a multiple of 32");
  if (args.intermediate % kMxBlock != 0)
    return want("intermediate", args.intermediate, "a multiple of 32");
  if (w.experts > routing::kRouteMaxExperts) return want("experts", w.experts, "at most 512");
  if (w.sizes.down_start != 0)
    return want("h begins at element", w.sizes.down_start, "0 of a scale block");
  if (args.workspace_bytes < pair_workspace(args).bytes)
    return want("workspace bytes", args.workspace_bytes,
                "at least " + std::to_string(pair_workspace(args).bytes));
  for (const int bytes : {up_shared_bytes(args), down_shared_bytes(args)}) {
    if (bytes > kMostSharedBytes)
      return want("shared memory of a CTA", bytes, "at most " + std::to_string(kMostSharedBytes));
  }
  return {};
}

PairGrid pair_grid() {
  constexpr int kDownCtasAnSm = 3;
  int device = 0, sms = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  return {sms, sms * kDownCtasAnSm};
}

Status prepare_pair() {
  if (Status s = prepare_up(); !s.ok()) return s;
  return prepare_down();
}

Status launch_arrange_x(const cuda::ExpertGemmArgs& args, cudaStream_t stream) {
  const int padded =
      ActivationRecord::count(static_cast<int>(args.hidden)) * ActivationRecord::kWidth;
  const ArrangeArgs a{args.x_quant,
                      args.x_scale,
                      static_cast<uint8_t*>(args.workspace) + PairWorkspace::kXAt,
                      static_cast<int>(args.tokens),
                      static_cast<int>(args.hidden),
                      padded};
  const int threads = ActivationRecord::padded_rows(a.tokens) * (padded / 8);
  return launch("arrange_x", arrange_kernel, static_cast<int>(ceil_div(threads, kArrangeThreads)),
                kArrangeThreads, 0, a, stream);
}

Status launch_pair_mxfp8(const cuda::ExpertGemmArgs& args, const PairGrid& grid,
                         cudaStream_t stream) {
  if (Status s = check_pair(args); !s.ok()) return s;
  if (Status s = launch_arrange_x(args, stream); !s.ok()) return s;
  if (Status s = launch_up_mxfp8(args, grid, stream); !s.ok()) return s;
  return launch_down_mxfp8(args, grid, stream);
}

}  // namespace octet::sm90
