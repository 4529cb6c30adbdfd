// SPDX-License-Identifier: Apache-2.0
// gemm2_mxfp8_mxfp4_sm100: second expert GEMM, unweighted rows in permuted order.
//
//   h_values [8 ctas, Ip] e4m3, h_scales ───┐
//   record (routing/record.h) ──────────────┼──► gemm2 ──► gemm2_rows [8 ctas or more, H] bf16
//   w2 [E, H, Ip/2] e2m1, w2_scale 128x4 ───┘
//
// H and Ip multiples of 128, the rest: check_gemm2(). Rows at or beyond a tile's limit are not written; what h holds there makes columns
// of products that nobody stores. Rounding: sums f32, k ascending (the tensor core's own order inside 32 k), one to bf16. Truth:
// reference::gemm2. Source: semantics.md section 8. Roles and hand-over: gemm_shared.cuh, docs/kernels/gemm_sm100.md. Checked: ptxsim.
#include "cuda/launch.h"
#include "cuda/prepared_launch.h"
#include "sm100/gemm_launch.h"
#include "sm100/gemm_roles.cuh"

namespace octet::sm100 {
namespace {

using Traits = Gemm2Traits;
using Layout = StageLayout<Traits>;

// By all threads: copies of scales read whole atoms, of which copies of h bring the first eight lines.
__device__ __forceinline__ void fill_scale_slack(const Shared<Traits>& s, int thread) {
  constexpr uint32_t kOnes = 0x7F7F7F7FU;
  constexpr int kLines = kScaleSlack / 16;
  for (int i = thread; i < s.stages * Traits::kChunks * kLines; i += kThreads) {
    const int place = i / kLines;
    uint8_t* const atom =
        s.stage(place / Traits::kChunks) + Layout::token_scales_at(place % Traits::kChunks);
    reinterpret_cast<uint4*>(atom + kTokenScaleBytes)[i % kLines] =
        make_uint4(kOnes, kOnes, kOnes, kOnes);
  }
}

// kTokens, one thread, alone to wait for GEMM1: the weights come meanwhile. In every CTA, also one without items: so no later kernel of the
// chain begins before GEMM1 has ended.
__device__ __forceinline__ void load_h(const Gemm2KernelArgs& args, const Shared<Traits>& s) {
  const GemmKernelArgs& a = args.gemm;
  Control<Traits>& c = s.control();
  cuda::wait_for_previous();
  ptx::fence_global_for_async();
  RingPlace at;
  for (Items i = items_of(a, c); i.next();) {
    const uint8_t* scales = args.h_scales + int64_t{i.tile} * a.chunks * kScaleAtomBytes;
    for (int k = 0; k < a.chunks; k += Traits::kChunks, at.next(a.stages)) {
      const int count = min(Traits::kChunks, a.chunks - k);
      uint64_t& full = c.full[at.stage];
      uint8_t* const to = s.stage(at.stage);
      ptx::wait(c.empty[at.stage], at.parity ^ 1U);
      ptx::arrive_expecting(full,
                            static_cast<uint32_t>(count) * (kTokenChunkBytes + kTokenScaleBytes));
      for (int j = 0; j < count; ++j) {
        ptx::copy_tile(to + Layout::tokens_at(j), a.tokens, (k + j) * kChunk, i.tile * 8, full);
        ptx::copy_bytes(to + Layout::token_scales_at(j), scales + int64_t{k + j} * kScaleAtomBytes,
                        kTokenScaleBytes, full);
      }
    }
  }
}

// kStore, all lanes. Lane 4 r + c: of rows 2 c, 2 c + 1 of the tile the stored rows r, r + 8, r + 16, r + 24 of w2, which are columns
// 4 r ... + 3 of the warp's 32 (layouts::unshuffled_row).
__device__ __forceinline__ void store_rows(const Gemm2KernelArgs& a, const Shared<Traits>& s,
                                           int quarter, int lane) {
  Control<Traits>& c = s.control();
  for (Items i = items_of(a.gemm, c); i.next();) {
    uint32_t sums[8];
    take_sums(c, i, quarter, lane, sums);
    const int column = i.block * kBlockRows + row_column(quarter, lane);
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      const int row = i.tile * 8 + 2 * (lane % 4) + t;
      if (row >= record_of(a.gemm, c).limit(i.tile)) continue;
      *reinterpret_cast<uint2*>(a.gemm2_rows + int64_t{row} * a.hidden + column) =
          make_uint2(cuda::two_bf16(__uint_as_float(sums[t]), __uint_as_float(sums[2 + t])),
                     cuda::two_bf16(__uint_as_float(sums[4 + t]), __uint_as_float(sums[6 + t])));
    }
  }
}

}  // namespace
}  // namespace octet::sm100

extern "C" __global__ __launch_bounds__(octet::sm100::kThreads, 1) void gemm2_mxfp8_mxfp4_sm100(
    const __grid_constant__ octet::cuda::Gemm2KernelArgs a) {
  using namespace octet::sm100;
  extern __shared__ __align__(1024) uint8_t memory[];
  const Shared<Gemm2Traits> s{memory, a.gemm.stages};
  const int thread = static_cast<int>(threadIdx.x), warp = thread / octet::cuda::kWarp,
            lane = thread % octet::cuda::kWarp;
  octet::cuda::let_next_begin();
  begin(a.gemm, s, warp);
  // The record was whole before GEMM1 let this kernel begin.
  octet::cuda::read_record(a.gemm, s.control().record, thread, kThreads);
  fill_scale_slack(s, thread);
  ptx::fence_shared_for_async();
  __syncthreads();
  if (warp == Role::kWeights) {
    if (ptx::elect_one()) load_weights(a.gemm, s);
  } else if (warp == Role::kTokens) {
    if (ptx::elect_one()) load_h(a, s);
  } else if (warp == Role::kMultiply) {
    if (ptx::elect_one()) multiply_items(a.gemm, s);
  } else if (warp >= Role::kStore) {
    store_rows(a, s, warp - Role::kStore, lane);
  }
  end(s, warp);
}

namespace octet::sm100 {

Status prepare_gemm2() {
  return cuda::allow_shared_bytes("gemm2_mxfp8_mxfp4_sm100", gemm2_mxfp8_mxfp4_sm100,
                                  kMostSharedBytes);
}

Status launch_gemm2(const GemmLaunch<Gemm2KernelArgs>& launch, int ctas, cudaStream_t stream) {
  return cuda::launch_gemm("gemm2_mxfp8_mxfp4_sm100", gemm2_mxfp8_mxfp4_sm100, kThreads, launch,
                           ctas, stream);
}

}  // namespace octet::sm100
