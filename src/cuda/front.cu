// SPDX-License-Identifier: Apache-2.0
// top-k, MXFP8 quantisation and the routing record: three kernels, and one.
//
//   logits [T, E] f32, bias ──► topk ──► topk_ids, topk_weights ──► route ──► permuted, record      block 0 of front
//   x [T, H] bf16 ─────────► mxfp8_quantize ──► x_quant, x_scale                                     its other blocks
//
// Any T (front: 8) and k <= 8, E <= 512; H % 32 == 0. Rounding and order: topk_dsv4.cuh, mxfp8_quantize.cuh, route.cuh, which both
// the three and the one are made of. Errors: front.h. Truth: routing/, cpu::mxfp8_quantize. Source: semantics.md sections 3-5.
// Checked: docs/kernels/front.md.
#include <algorithm>
#include <string>

#include "cuda/front.h"
#include "cuda/launch.h"
#include "cuda/mxfp8_quantize.cuh"
#include "cuda/route.cuh"
#include "cuda/topk_dsv4.cuh"

namespace octet::cuda {
namespace {

constexpr int kQuantizeThreads = 256;

template <int kKeys>
__global__ __launch_bounds__(kTopkThreads) void topk_kernel(const __grid_constant__ TopkArgs a) {
  __shared__ TopkShared shared;
  let_next_begin();
  wait_for_previous();
  topk_block<kKeys>(a, int64_t{blockIdx.x} * kTopkRows, shared, [] {});
}

__device__ void quantize_piece(const QuantizeArgs& a, int64_t piece) {
  const int64_t index = piece * blockDim.x + threadIdx.x;
  quantize_eight(a, index, index < a.tokens * a.width / kQuantizeElems);
}

__global__ __launch_bounds__(kQuantizeThreads) void quantize_kernel(
    const __grid_constant__ QuantizeArgs a) {
  let_next_begin();
  wait_for_previous();
  quantize_piece(a, blockIdx.x);
}

// Scales of padding: rows and columns of a swizzled layout that x does not have.
__global__ __launch_bounds__(kQuantizeThreads) void clear_padding_kernel(
    const __grid_constant__ QuantizeArgs a) {
  let_next_begin();
  wait_for_previous();
  const int64_t cols = a.width / kMxBlock;
  const int64_t at = int64_t{blockIdx.x} * kQuantizeThreads + threadIdx.x;
  if (at >= layouts::scale_bytes(a.layout, a.tokens, cols)) return;
  const layouts::ScaleCoord c = layouts::scale_coord(a.layout, cols, at);
  if (c.row >= a.tokens || c.col >= cols) a.x_scale[at] = 0;
}

__global__ __launch_bounds__(kRouteThreads) void route_kernel(const __grid_constant__ RouteArgs a) {
  __shared__ RouteShared shared;
  let_next_begin();
  wait_for_previous();
  route_block(a, shared);
}

RouteArgs route_args(const FrontArgs& a) {
  return {.topk_ids = {.data = a.topk.topk_ids, .is_i64 = false},
          .tokens = a.topk.tokens,
          .top_k = a.topk.router.top_k,
          .experts = a.topk.experts,
          .permuted = a.permuted,
          .record = a.record};
}

struct FrontKernelArgs {
  QuantizeArgs quantize;
  TopkArgs topk;
  RouteArgs route;
};

// Block 0: the rows, then the record, from ids that its own threads wrote. The others quantise.
static_assert(kTopkThreads == kRouteThreads && kTopkRows >= kFrontMaxTokens &&
              kFewTokens >= kFrontMaxTokens);
template <int kKeys>
__global__ __launch_bounds__(kRouteThreads,
                             1) void front_kernel(const __grid_constant__ FrontKernelArgs a) {
  __shared__ TopkShared topk;
  __shared__ RouteShared route;
  let_next_begin();
  wait_for_previous();
  if (blockIdx.x != 0) {
    quantize_piece(a.quantize, int64_t{blockIdx.x} - 1);
    return;
  }
  const int id = topk_block<kKeys>(a.topk, 0, topk, [&] { begin_few(a.route, route); });
  const auto warp = static_cast<int32_t>(threadIdx.x) / kWarp,
             lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  route_few(a.route, route, {id >= 0, warp, lane, id});
}

Status check_aligned(const void* p, const char* name) {
  if (reinterpret_cast<uintptr_t>(p) % 16 == 0) return {};
  return unsupported(std::string(name) + ": address not a multiple of 16");
}

Status check_quantize(const QuantizeArgs& a) {
  if (a.width % kMxBlock != 0)
    return unsupported("K " + std::to_string(a.width) + " is not a multiple of 32");
  if (Status s = check_aligned(a.x, "x"); !s.ok()) return s;
  return check_aligned(a.x_quant, "x_quant");
}
Status check_dsv4(const TopkArgs& a) {
  if (a.router.kind == RouterKind::kDsv4) return routing::check_topk(a);
  return unsupported("router " + std::string(name_of(a.router.kind)) +
                     " on a CUDA device, want dsv4");
}
Status check_route(const RouteArgs& a) {
  if (a.experts > routing::kRouteMaxExperts) {
    return unsupported("experts " + std::to_string(a.experts) + ", want at most " +
                       std::to_string(routing::kRouteMaxExperts));
  }
  if (a.tokens * a.top_k > kMostIds) {
    return unsupported("ids " + std::to_string(a.tokens * a.top_k) + ", want at most " +
                       std::to_string(kMostIds));
  }
  return {};
}

dim3 blocks_of(int64_t threads, int64_t of_a_block) {
  return dim3(static_cast<unsigned>(ceil_div(threads, of_a_block)));
}
int64_t quantize_threads(const QuantizeArgs& a) { return a.tokens * a.width / kQuantizeElems; }

// The kernel with room for `experts`: those of the common models, and all.
template <class Kernel>
Kernel with_keys(int64_t experts, Kernel eight, Kernel twelve, Kernel sixteen) {
  return experts <= 8 * kWarp ? eight : experts <= 12 * kWarp ? twelve : sixteen;
}

}  // namespace

Status launch_topk(const TopkArgs& args, cudaStream_t stream) {
  if (Status s = check_dsv4(args); !s.ok()) return s;
  if (args.tokens == 0) return {};
  return launch("topk", with_keys(args.experts, topk_kernel<8>, topk_kernel<12>, topk_kernel<16>),
                blocks_of(args.tokens, kTopkRows), kTopkThreads, args, stream);
}

Status launch_mxfp8_quantize(const QuantizeArgs& args, cudaStream_t stream) {
  if (Status s = check_quantize(args); !s.ok()) return s;
  const int64_t cols = args.width / kMxBlock;
  const int64_t scales = layouts::scale_bytes(args.layout, args.tokens, cols);
  if (scales != args.tokens * cols) {
    Status s = launch("mxfp8_quantize", clear_padding_kernel, blocks_of(scales, kQuantizeThreads),
                      kQuantizeThreads, args, stream);
    if (!s.ok()) return s;
  }
  if (quantize_threads(args) == 0) return {};
  return launch("mxfp8_quantize", quantize_kernel,
                blocks_of(quantize_threads(args), kQuantizeThreads), kQuantizeThreads, args,
                stream);
}

Status launch_route(const RouteArgs& args, cudaStream_t stream) {
  if (Status s = check_route(args); !s.ok()) return s;
  return launch("route", route_kernel, dim3(1), kRouteThreads, args, stream);
}

Status launch_front(const FrontArgs& args, cudaStream_t stream) {
  const FrontKernelArgs all{args.quantize, args.topk, route_args(args)};
  if (Status s = check_dsv4(args.topk); !s.ok()) return s;
  if (Status s = check_quantize(args.quantize); !s.ok()) return s;
  if (Status s = check_route(all.route); !s.ok()) return s;
  if (args.topk.tokens > kFrontMaxTokens) {
    return unsupported("T " + std::to_string(args.topk.tokens) + ", want at most " +
                       std::to_string(kFrontMaxTokens) + " for front");
  }
  if (args.quantize.layout != ScaleLayout::kLinear) {
    return unsupported("scale layout " + std::string(name_of(args.quantize.layout)) +
                       ", want linear for front");
  }
  const int64_t blocks = 1 + ceil_div(quantize_threads(args.quantize), kRouteThreads);
  return launch("front",
                with_keys(args.topk.experts, front_kernel<8>, front_kernel<12>, front_kernel<16>),
                dim3(static_cast<unsigned>(blocks)), kRouteThreads, all, stream);
}

}  // namespace octet::cuda
