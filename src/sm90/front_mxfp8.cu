// SPDX-License-Identifier: Apache-2.0
// front_mxfp8: what comes before the experts, in one launch.
//
//   logits [T, E] f32, bias ──► topk ──► topk_ids, topk_weights ──► route ──► permuted, record      block 0
//   x [T, H] bf16 ─────────► mxfp8_quantize ──► x records (activation_record.h)                     the others, which also clear h and
//                                                                                                  rows for the hand-over (make_ready.cuh)
// Shapes, errors: front_mxfp8.h. Rounding and order: cuda/topk_dsv4.cuh, mxfp8_quantize.cuh, route.cuh. Truth: routing/, cpu::mxfp8_quantize.
#include <string>

#include "cuda/launch.h"
#include "cuda/mxfp8_quantize.cuh"
#include "cuda/route.cuh"
#include "cuda/topk_dsv4.cuh"
#include "sm90/experts_plan.h"
#include "sm90/front_mxfp8.h"
#include "sm90/make_ready.cuh"

namespace octet::sm90 {
namespace {

constexpr int kThreads = cuda::kRouteThreads, kOtherBlocks = 32;
static_assert(cuda::kTopkThreads == kThreads && cuda::kTopkRows >= kMostTokens &&
              cuda::kFewTokens >= kMostTokens);

struct Args {
  TopkArgs topk;
  RouteArgs route;
  const Bf16* x;
  uint8_t* records;
  int tokens, hidden, padded;  // padded: H in whole records
  HandOver hand_over;
};

// Eight elements a thread; blocks of 32 are whole in a row, and rows of records beyond T and H are zeros.
__device__ __forceinline__ void quantize(const Args& a, int first) {
  const int of_a_row = a.padded / cuda::kQuantizeElems,
            rows = ActivationRecord::padded_rows(a.tokens);
  const int count = rows * of_a_row;
  for (int i = first; i < (count + cuda::kWarp - 1) / cuda::kWarp * cuda::kWarp;
       i += kOtherBlocks * kThreads) {
    const int row = i / of_a_row, k = i % of_a_row * cuda::kQuantizeElems;
    uint4 raw = make_uint4(0, 0, 0, 0);
    const bool is_there = row < a.tokens && k < a.hidden;
    if (is_there) raw = *reinterpret_cast<const uint4*>(a.x + int64_t{row} * a.hidden + k);
    const cuda::QuantizedElems q = cuda::quantize_elems(raw);
    if (i < count) store_record(a.records, rows, row, k, q.codes, is_there ? q.scale : 127);
  }
}

template <int kKeys>
__global__ __launch_bounds__(kThreads, 1) void front_mxfp8_kernel(const __grid_constant__ Args a) {
  __shared__ cuda::TopkShared topk;
  __shared__ cuda::RouteShared route;
  cuda::let_next_begin();
  cuda::wait_for_previous();
  const auto thread = static_cast<int>(threadIdx.x);
  if (blockIdx.x != 0) {
    const int first = (static_cast<int>(blockIdx.x) - 1) * kThreads + thread;
    quantize(a, first);
    clear_hand_over(a.hand_over, first, kOtherBlocks * kThreads);
    return;
  }
  const int id = cuda::topk_block<kKeys>(a.topk, 0, topk, [&] { cuda::begin_few(a.route, route); });
  cuda::route_few(a.route, route, {id >= 0, thread / cuda::kWarp, thread % cuda::kWarp, id});
}

}  // namespace

Status launch_front_mxfp8(const FrontMxfp8Args& args, cudaStream_t stream) {
  const cuda::ExpertGemmArgs& g = args.experts.gemm;
  OCTET_RETURN_IF_ERROR(check_experts(args.experts));
  OCTET_RETURN_IF_ERROR(routing::check_topk(args.topk));
  if (args.topk.router.top_k != g.top_k)
    return unsupported("k " + std::to_string(args.topk.router.top_k) +
                       ", want that of the experts, " + std::to_string(g.top_k));
  if (reinterpret_cast<uintptr_t>(args.x) % 16 != 0)
    return unsupported("x: address not a multiple of 16");
  if (args.topk.router.kind != RouterKind::kDsv4)
    return unsupported("router " + std::string(name_of(args.topk.router.kind)) +
                       " on a CUDA device, want dsv4");
  if (args.topk.tokens != g.tokens || g.tokens > kMostTokens)
    return unsupported("T " + std::to_string(args.topk.tokens) +
                       ", want that of the experts, at most 8");
  const Args a{
      .topk = args.topk,
      .route = {.topk_ids = {.data = args.topk.topk_ids, .is_i64 = false},
                .tokens = g.tokens,
                .top_k = g.top_k,
                .experts = g.weights.experts,
                .permuted = args.permuted,
                .record = args.record,
                .first_expert = args.first_expert},
      .x = args.x,
      .records = static_cast<uint8_t*>(g.workspace) + ExpertsWorkspace::kXAt,
      .tokens = static_cast<int>(g.tokens),
      .hidden = static_cast<int>(g.hidden),
      .padded = ActivationRecord::count(static_cast<int>(g.hidden)) * ActivationRecord::kWidth,
      .hand_over = hand_over_of(args.experts)};
  const int64_t experts = args.topk.experts;
  const auto kernel = experts <= 8 * cuda::kWarp    ? front_mxfp8_kernel<8>
                      : experts <= 12 * cuda::kWarp ? front_mxfp8_kernel<12>
                                                    : front_mxfp8_kernel<16>;
  return cuda::launch("front_mxfp8", kernel, dim3(1 + kOtherBlocks), kThreads, a, stream);
}

}  // namespace octet::sm90
