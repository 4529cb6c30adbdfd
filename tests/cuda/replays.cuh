// SPDX-License-Identifier: Apache-2.0
// A graph that asks for other experts and another x in each of its replays, and folds all that comes out into one digest.
//
//   replay's number ─► next_request ─► x, logits ─► the layer ─► y, ids ─► fold ─► digest, number + 1
#pragma once

#include "cuda/launch.h"
#include "decode_call.cuh"

namespace octet::sm90 {

// A replay's number and the digest of those before it.
struct Chain {
  uint64_t replay, digest;
};
struct ReplayArgs {
  Chain* chain;
  __nv_bfloat16* x;
  float* logits;
  const Bf16* y;
  const int32_t* ids;
  int tokens, hidden, experts;
  uint64_t seed;
};
__device__ inline int wanted_place(uint64_t random, int row, int expert, int experts) {
  const auto first = static_cast<int>(random % static_cast<uint64_t>(experts));
  const int step = 1 + static_cast<int>(random >> 32) % 4;
  for (int j = 0; j < kTopK; ++j)
    if ((first + (j + row * step) % 12) % experts == expert) return j;
  return -1;
}
static __global__ void next_request(const __grid_constant__ ReplayArgs a) {
  cuda::let_next_begin();
  cuda::wait_for_previous();
  const uint64_t random = mix(a.seed + a.chain->replay);
  const auto row = static_cast<int>(blockIdx.x);
  const int first = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x),
            step = static_cast<int>(gridDim.y * blockDim.x);
  for (int e = first; e < a.experts; e += step) {
    const int place = wanted_place(random, row, e, a.experts);
    a.logits[row * a.experts + e] =
        place >= 0 ? wanted_logit(place)
                   : other_logit(mix(random + static_cast<uint64_t>(row * a.experts + e)));
  }
  for (int c = first; c < a.hidden; c += step)
    a.x[int64_t{row} * a.hidden + c] = made_x(random, int64_t{row} * a.hidden + c);
}
// One block: y and ids into the digest, in an order that no timing changes.
static __global__ __launch_bounds__(1024) void fold(const __grid_constant__ ReplayArgs a) {
  __shared__ unsigned long long sum;
  if (threadIdx.x == 0) sum = 0;
  cuda::let_next_begin();
  cuda::wait_for_previous();
  __syncthreads();
  unsigned long long mine = 0;
  const auto* y = reinterpret_cast<const uint64_t*>(a.y);  // H is a multiple of 32
  const int words = a.tokens * a.hidden / 4, ids = a.tokens * kTopK;
  for (auto i = static_cast<int>(threadIdx.x); i < words + ids; i += 1024) {
    const uint64_t bits = i < words ? y[i] : static_cast<uint32_t>(a.ids[i - words]);
    mine += mix(mix(bits) + static_cast<uint64_t>(i));
  }
  atomicAdd(&sum, mine);
  __syncthreads();
  if (threadIdx.x != 0) return;
  a.chain->digest = mix(a.chain->digest + mix(sum));
  a.chain->replay += 1;
}

class Replays {
 public:
  Replays(const DecodeLayer& layer, int tokens, int ctas, uint64_t seed)
      : call_(layer, tokens), chain_(std::vector<Chain>(1)) {
    const ReplayArgs a{chain_.get(),
                       reinterpret_cast<__nv_bfloat16*>(call_.x.get()),
                       call_.logits.get(),
                       call_.y.get(),
                       call_.ids.get(),
                       tokens,
                       static_cast<int>(layer.shape.hidden),
                       static_cast<int>(layer.shape.experts),
                       seed};
    cudaGraph_t graph = nullptr;
    expect_ok(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    expect_ok(cuda::launch("next_request", next_request, dim3(static_cast<unsigned>(tokens), 4),
                           256, a, stream_));
    call_.launch(stream_, ctas);
    expect_ok(cuda::launch("fold", fold, dim3(1), 1024, a, stream_));
    expect_ok(cudaStreamEndCapture(stream_, &graph));
    expect_ok(cudaGraphInstantiate(&exec_, graph, 0));
    cudaGraphDestroy(graph);
  }
  Replays(const Replays&) = delete;
  Replays& operator=(const Replays&) = delete;
  ~Replays() { cudaGraphExecDestroy(exec_); }

  Chain run(int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      expect_ok(cudaGraphLaunch(exec_, stream_));
      if (i % 1000 == 999) finish(stream_, "replays");
    }
    finish(stream_, "replays");
    return chain_.back().front();
  }

 private:
  DecodeCall call_;
  OnDevice<Chain> chain_;
  Stream stream_;
  cudaGraphExec_t exec_ = nullptr;
};

}  // namespace octet::sm90
