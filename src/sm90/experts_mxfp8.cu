// SPDX-License-Identifier: Apache-2.0
// What belongs to the experts' kernel on the host, and the launch before it where x is quantised already.
#include <string>

#include "cuda/launch.h"
#include "routing/record.h"
#include "routing/topk.h"
#include "sm90/experts_mxfp8.h"
#include "sm90/experts_of.h"
#include "sm90/launch_word.cuh"
#include "sm90/make_ready.cuh"

namespace octet::sm90 {
namespace {

constexpr int kThreads = 256, kBlocks = 64;

struct MakeReadyArgs {
  const uint8_t *x_quant, *x_scale;
  uint8_t* x;
  int tokens, hidden, padded;  // padded: H in whole records
  uint8_t* hand_over;          // h and rows
  int64_t hand_over_bytes;
  uint64_t* word;
  uint64_t at_rest;
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
  clear_hand_over(a.hand_over, a.hand_over_bytes, first, kAll);
  if (first == 0) *a.word = a.at_rest;
}

// A launch counts its tickets in 16 bits, and each CTA takes two that are none.
constexpr int64_t kMostTickets = LaunchWord::kMostTickets - 2 * kMostCtas;
int64_t most_tickets(const cuda::ExpertGemmArgs& args) {
  const WorkOrder order(
      static_cast<int>(routing::max_ctas(args.tokens, args.top_k, args.weights.experts)),
      static_cast<int>(args.weights.sizes.w13.num_groups()),
      static_cast<int>(args.weights.sizes.w2.num_groups()), ExpertsRoles::kChunk);
  return order.num_all;
}

Status want(const std::string& what, int64_t found, const std::string& wanted) {
  return unsupported(what + " " + std::to_string(found) + ", want " + wanted);
}

}  // namespace

ExpertsWorkspace experts_workspace(const cuda::ExpertGemmArgs& args) {
  constexpr int64_t kAlign = 256;
  const bool has_x = args.activations == Activations::kMxfp8;
  const auto records = [&](const layouts::StreamMatrix& m) {
    return with_traits(args, [&]<class Traits>(Traits) {
      using Record = typename Traits::Record;
      return m.pairs * int64_t{Record::bytes(Record::padded_rows(static_cast<int>(args.tokens)))};
    });
  };
  ExpertsWorkspace w{};
  w.h_at = ExpertsWorkspace::kXAt +
           (has_x ? round_up(records(args.weights.sizes.w13), kAlign) : int64_t{0});
  w.h_bytes = records(args.weights.sizes.w2) *
              routing::max_ctas(args.tokens, args.top_k, args.weights.experts);
  w.rows_at = w.h_at + round_up(w.h_bytes, kAlign);
  w.half_bytes = w.rows_at + round_up(args.tokens * args.top_k * args.hidden * 2, kAlign);
  w.bytes = ExpertsWorkspace::kHalvesAt + 2 * w.half_bytes;
  return w;
}

namespace {

Status check_front(const ExpertsArgs& all) {
  const cuda::ExpertGemmArgs& g = all.gemm;
  const TopkArgs& topk = all.front.topk;
  OCTET_RETURN_IF_ERROR(routing::check_topk(topk));
  if (topk.router.kind != RouterKind::kDsv4)
    return unsupported("router " + std::string(name_of(topk.router.kind)) +
                       " on a CUDA device, want dsv4");
  if (all.front.record == nullptr || all.front.record != g.record ||
      all.front.permuted == nullptr || all.front.permuted != g.permuted)
    return unsupported("record and permuted of the front, want those of the experts");
  if (topk.topk_ids == nullptr || topk.topk_weights == nullptr)
    return unsupported("no topk_ids or topk_weights, want both of the front");
  if (topk.router.top_k != g.top_k)
    return want("k", topk.router.top_k, "that of the experts, " + std::to_string(g.top_k));
  if (topk.tokens != g.tokens)
    return want("T", topk.tokens, "that of the experts, " + std::to_string(g.tokens));
  if (g.activations == Activations::kBf16 && all.front.x != g.x)
    return unsupported("x of the front, want that of the experts");
  if (reinterpret_cast<uintptr_t>(all.front.x) % 16 != 0)
    return unsupported("x: address not a multiple of 16");
  return {};
}

}  // namespace

Status check_experts(const ExpertsArgs& all) {
  const cuda::ExpertGemmArgs& args = all.gemm;
  const cuda::StreamWeights& w = args.weights;
  const bool is_mxfp8 = args.activations == Activations::kMxfp8;
  if (is_mxfp8 && w.sizes.w13.format != WeightFormat::kMxfp4)
    return unsupported("weights nvfp4 with activations mxfp8, want mxfp4");
  if (w.order != experts_order(args.activations))
    return unsupported(is_mxfp8 ? "weights in the order bf16, want e4m3"
                                : "weights in the order e4m3, want bf16");
  if (args.tokens < 1 || args.tokens > kMostTokens) return want("T", args.tokens, "1 to 8");
  if (args.top_k < 1 || args.top_k > kMostTopK) return want("k", args.top_k, "1 to 8");
  if (args.hidden % kMxBlock != 0) return want("hidden", args.hidden, "a multiple of 32");
  if (args.intermediate % kMxBlock != 0)
    return want("intermediate", args.intermediate, "a multiple of 32");
  if (w.experts > routing::kRouteMaxExperts) return want("experts", w.experts, "at most 512");
  constexpr int64_t kMostXElems = Bf16Fp4<WeightFormat::kMxfp4>::kMostXElems;
  if (const int64_t elems = args.tokens * w.sizes.w13.pairs * Bf16Record::kWidth;
      !is_mxfp8 && elems > kMostXElems)
    return want("elements of x at T " + std::to_string(args.tokens), elems,
                "at most " + std::to_string(kMostXElems));
  if (!is_mxfp8 && reinterpret_cast<uintptr_t>(args.x) % 16 != 0)
    return unsupported("x: address not a multiple of 16");
  if (all.y != nullptr && all.front.x == nullptr && all.topk_weights == nullptr)
    return unsupported("no topk_weights, want those of y");
  if (w.sizes.down_start != 0)
    return want("h begins at element", w.sizes.down_start, "0 of a scale block");
  const int64_t bytes = experts_workspace(args).bytes;
  if (args.workspace_bytes < bytes)
    return want("workspace bytes", args.workspace_bytes, "at least " + std::to_string(bytes));
  if (const int shared = experts_shared_bytes(args); shared > kMostSharedBytes)
    return want("shared memory of a CTA", shared, "at most " + std::to_string(kMostSharedBytes));
  if (const int64_t tickets = most_tickets(args); tickets > kMostTickets)
    return want("units of work", tickets, "at most " + std::to_string(kMostTickets));
  // Each aux warp takes one more early ticket than it uses.
  constexpr int64_t kMostPieces =
      LaunchWord::kMostEarly - LaunchWord::kClearPieces - ExpertsRoles::kAuxWarps * kMostCtas;
  const int64_t pieces =
      is_mxfp8 ? x_pieces(ActivationRecord::padded_rows(static_cast<int>(args.tokens)),
                          static_cast<int>(args.weights.sizes.w13.pairs))
               : 0;
  if (pieces > kMostPieces)
    return want("pieces of x", pieces, "at most " + std::to_string(kMostPieces));
  return all.front.x != nullptr ? check_front(all) : Status{};
}

layouts::StreamOrder experts_order(Activations activations) {
  return activations == Activations::kMxfp8 ? Mxfp8Mxfp4::kOrder
                                            : Bf16Fp4<WeightFormat::kMxfp4>::kOrder;
}
int experts_shared_bytes(const cuda::ExpertGemmArgs& args) {
  return with_traits(args,
                     [&]<class Traits>(Traits) { return ExpertsOf<Traits>::shared_bytes(args); });
}
Status prepare_experts(Activations activations, WeightFormat weights) {
  return with_traits(activations, weights,
                     []<class Traits>(Traits) { return ExpertsOf<Traits>::prepare(); });
}
Status launch_experts(const ExpertsArgs& args, int ctas, cudaStream_t stream) {
  if (ctas < 1 || ctas > kMostCtas)
    return unsupported("CTAs " + std::to_string(ctas) + ", want 1 to " + std::to_string(kMostCtas));
  return with_traits(args.gemm, [&]<class Traits>(Traits) {
    return ExpertsOf<Traits>::launch(args, ctas, stream);
  });
}

int experts_ctas() {
  int device = 0, sms = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  return sms;
}

Status launch_make_ready(const ExpertsArgs& args, cudaStream_t stream) {
  const cuda::ExpertGemmArgs& g = args.gemm;
  if (g.activations != Activations::kMxfp8)
    return unsupported("activations bf16, want mxfp8: others have nothing to make ready");
  auto* const workspace = static_cast<uint8_t*>(g.workspace);
  const ExpertsWorkspace at = experts_workspace(g);
  uint8_t* const half = workspace + ExpertsWorkspace::kHalvesAt;
  const MakeReadyArgs a{
      .x_quant = g.x_quant,
      .x_scale = g.x_scale,
      .x = half + ExpertsWorkspace::kXAt,
      .tokens = static_cast<int>(g.tokens),
      .hidden = static_cast<int>(g.hidden),
      .padded = ActivationRecord::count(static_cast<int>(g.hidden)) * ActivationRecord::kWidth,
      .hand_over = half + at.h_at,
      .hand_over_bytes = at.half_bytes - at.h_at,
      .word = reinterpret_cast<uint64_t*>(workspace + ExpertsWorkspace::kWordAt),
      .at_rest = LaunchWord::at_rest(at.half_bytes, 0)};
  return cuda::launch("make_ready", make_ready_kernel, dim3(kBlocks), kThreads, a, stream);
}

}  // namespace octet::sm90
