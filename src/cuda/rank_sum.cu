// SPDX-License-Identifier: Apache-2.0
// Eight columns a thread, rank after rank. Truth: rank_sum_test.cu's plain loop. Checked: docs/kernels/rank_sum.md.
#include <string>
#include <utility>

#include "core/shape.h"
#include "cuda/bf16_lanes.cuh"
#include "cuda/device_memory.h"
#include "cuda/launch.h"
#include "cuda/nccl.h"
#include "cuda/rank_sum.h"

namespace octet::cuda {
namespace {

constexpr int kThreads = 128;

__global__ __launch_bounds__(kThreads) void rank_sum_kernel(const __grid_constant__ RankSumArgs a) {
  let_next_begin();
  wait_for_previous();
  const int64_t at = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kBf16Lanes;
  if (at >= a.count) return;
  float sum[kBf16Lanes];
  load_lanes(sum, a.partials + at);
  for (int64_t rank = 1; rank < a.ranks; ++rank) {
    float v[kBf16Lanes];
    load_lanes(v, a.partials + rank * a.count + at);
#pragma unroll
    for (int i = 0; i < kBf16Lanes; ++i) sum[i] = __fadd_rn(sum[i], v[i]);
  }
  store_lanes(a.y + at, sum);
}

Status check_count(int64_t count) {
  if (count >= 0 && count % kBf16Lanes == 0) return {};
  return invalid_argument("count " + std::to_string(count) + ", want T H, a multiple of 8");
}

}  // namespace

Status launch_rank_sum(const RankSumArgs& args, cudaStream_t stream) {
  if (args.ranks < 1)
    return unsupported("ranks " + std::to_string(args.ranks) + ", want at least 1");
  OCTET_RETURN_IF_ERROR(check_count(args.count));
  if (args.count == 0) return {};
  const auto blocks = static_cast<unsigned>(ceil_div(args.count, int64_t{kThreads} * kBf16Lanes));
  return launch("rank_sum", rank_sum_kernel, dim3(blocks), kThreads, args, stream);
}

Status reduce_over_ranks(const RankReduceArgs& args, void* stream_of_call) {
  for (const auto& [name, at] : {std::pair<const char*, const void*>{"comm", args.comm},
                                 {"partials", args.partials},
                                 {"y", args.y}}) {
    if (at == nullptr) return invalid_argument(std::string(name) + ": missing");
  }
  OCTET_RETURN_IF_ERROR(check_multiple("partials", args.partials, sizeof(uint4)));
  OCTET_RETURN_IF_ERROR(check_multiple("y", args.y, sizeof(uint4)));
  OCTET_RETURN_IF_ERROR(check_count(args.count));
  const auto stream = static_cast<cudaStream_t>(stream_of_call);
  OCTET_ASSIGN_OR_RETURN(const Nccl* const n, nccl());
  int ranks = 0, rank = 0;
  OCTET_RETURN_IF_ERROR(n->status("ncclCommCount", n->comm_count(args.comm, &ranks)));
  OCTET_RETURN_IF_ERROR(n->status("ncclCommUserRank", n->comm_rank(args.comm, &rank)));
  const Bf16* const own = args.partials + rank * args.count;
  const size_t bytes = static_cast<size_t>(args.count) * sizeof(Bf16);
  const int result = n->all_gather(own, args.partials, bytes, Nccl::kBytes, args.comm, stream);
  OCTET_RETURN_IF_ERROR(n->status("ncclAllGather", result));
  return launch_rank_sum({args.partials, ranks, args.count, args.y}, stream);
}

}  // namespace octet::cuda
