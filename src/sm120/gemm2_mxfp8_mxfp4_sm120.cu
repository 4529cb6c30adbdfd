// SPDX-License-Identifier: Apache-2.0
// gemm2_mxfp8_mxfp4_sm120: second expert GEMM, unweighted rows in permuted order, on mma.sync with block scales.
//
//   h_values [8 ctas, Ip] e4m3, h_scales ───┐
//   record (routing/record.h) ──────────────┼──► gemm2 ──► gemm2_rows [8 ctas or more, H] bf16
//   w2 [E, H, Ip/2] e2m1, w2_scale 128x4 ───┘
//
// H and Ip multiples of 128, the rest: cuda::check_gemm2(). Rows at or beyond a tile's limit are not written; what h holds there makes columns
// of products that nobody stores. Rounding: sums f32, k ascending (the tensor core's own order inside 32 k), one to bf16. Truth:
// reference::gemm2. Source: semantics.md section 8. Roles and hand-over: gemm_roles.cuh, docs/kernels/gemm_sm120.md. Checked: ptxsim.
#include "cuda/prepared_launch.h"
#include "sm120/gemm_launch.h"
#include "sm120/gemm_roles.cuh"

namespace octet::sm120 {
namespace {

using Traits = Gemm2Traits;
using Layout = StageLayout<Traits>;

// kTokens, one thread, alone to wait for GEMM1: the weights come meanwhile. In every CTA, also one without items: so no later kernel of the
// chain begins before GEMM1 has ended.
__device__ __forceinline__ void load_h(const Gemm2KernelArgs& args, const Shared<Traits>& s) {
  const GemmKernelArgs& a = args.gemm;
  Control& c = s.control();
  cuda::wait_for_previous();
  cuda::ptx::fence_global_for_async();
  RingPlace at;
  for (Items i = s.items(a); i.next();) {
    const uint8_t* scales = args.h_scales + int64_t{i.tile} * a.chunks * kScaleAtomBytes;
    for (int k = 0; k < a.chunks; k += Traits::kChunks, at.next(a.stages)) {
      const int count = min(Traits::kChunks, a.chunks - k);
      uint64_t& full = c.full[at.stage];
      uint8_t* const to = s.stage(at.stage);
      cuda::ptx::wait(c.empty[at.stage], at.parity ^ 1U);
      cuda::ptx::arrive_expecting(
          full, static_cast<uint32_t>(count) * (kTokenChunkBytes + kTokenScaleBytes));
      for (int j = 0; j < count; ++j) {
        cuda::ptx::copy_tile(to + Layout::tokens_at(j), a.tokens, (k + j) * kChunk, i.tile * 8,
                             full);
        cuda::ptx::copy_bytes(to + Layout::token_scales_at(j),
                              scales + int64_t{k + j} * kScaleAtomBytes, kTokenScaleBytes, full);
      }
    }
  }
}

// kMultiply, all lanes. Lane 4 g + t: of rows 2 t, 2 t + 1 of the tile two neighbouring columns.
__device__ __forceinline__ void multiply_and_store(const Gemm2KernelArgs& a,
                                                   const Shared<Traits>& s, int w, int lane) {
  const cuda::SharedRecord record = s.record(a.gemm);
  RingPlace at;
  for (Items i = s.items(a.gemm); i.next();) {
    float d[4];
    multiply_item(a.gemm, s, at, w, lane, d);
    const int column = i.block * kBlockRows + row_column(w, lane);
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      const int row = i.tile * 8 + 2 * (lane % 4) + t;
      if (row >= record.limit(i.tile)) continue;
      *reinterpret_cast<uint32_t*>(a.gemm2_rows + int64_t{row} * a.hidden + column) =
          cuda::two_bf16(d[t], d[2 + t]);
    }
  }
}

}  // namespace
}  // namespace octet::sm120

extern "C" __global__ __launch_bounds__(octet::sm120::kThreads, 1) void gemm2_mxfp8_mxfp4_sm120(
    const __grid_constant__ octet::cuda::Gemm2KernelArgs a) {
  using namespace octet::sm120;
  extern __shared__ __align__(1024) uint8_t memory[];
  const Shared<Gemm2Traits> s{memory, a.gemm.stages};
  const int thread = static_cast<int>(threadIdx.x), warp = thread / octet::cuda::kWarp,
            lane = thread % octet::cuda::kWarp;
  octet::cuda::let_next_begin();
  begin(a.gemm, s, warp);
  // The record was whole before GEMM1 let this kernel begin.
  octet::cuda::read_record(a.gemm, s.control().record, thread, kThreads);
  __syncthreads();
  if (warp == Role::kWeights) {
    if (octet::cuda::ptx::elect_one()) load_weights(a.gemm, s);
  } else if (warp == Role::kTokens) {
    if (octet::cuda::ptx::elect_one()) load_h(a, s);
  } else {
    multiply_and_store(a, s, warp - Role::kMultiply, lane);
  }
}

namespace octet::sm120 {

Status prepare_gemm2() {
  return cuda::allow_shared_bytes("gemm2_mxfp8_mxfp4_sm120", gemm2_mxfp8_mxfp4_sm120,
                                  kMostSharedBytes);
}

Status launch_gemm2(const GemmLaunch<Gemm2KernelArgs>& launch, int ctas, cudaStream_t stream) {
  return cuda::launch_gemm("gemm2_mxfp8_mxfp4_sm120", gemm2_mxfp8_mxfp4_sm120, kThreads, launch,
                           ctas, stream);
}

}  // namespace octet::sm120
