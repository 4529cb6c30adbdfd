// SPDX-License-Identifier: Apache-2.0
// gemm1_mxfp8_mxfp4_sm120: first expert GEMM, SwiGLU and MXFP8 quantisation of h, for at most eight tokens, on mma.sync with block scales.
//
//   x_quant [T, H] e4m3, x_scale [T, H/32] ───┐
//   record (routing/record.h), clamp [E] ─────┼──► gemm1 ──► h_values [8 ctas, Ip] e4m3, h_scales
//   w13 [E, 2 Ip, H/2] e2m1, w13_scale 128x4 ─┘
//
// T 1 ... 8, H a multiple of 128, the rest: cuda::check_gemm1(). All tokens are columns of every product; a tile stores those that are routed to it.
// Rounding: sums f32, k ascending (the tensor core's own order inside 32 k); cuda/swiglu.cuh; cuda/prepared_hidden.cuh. Truth: reference::gemm1.
// Source: semantics.md section 7. Roles and hand-over: gemm_roles.cuh, docs/kernels/gemm_sm120.md. Checked: ptxsim.
#include "cuda/prepared_launch.h"
#include "cuda/swiglu.cuh"
#include "sm120/gemm_launch.h"
#include "sm120/gemm_roles.cuh"

namespace octet::sm120 {
namespace {

using Traits = Gemm1Traits;
using Layout = StageLayout<Traits>;

// By all threads: [chunks][8 tokens]; where there is no token, 1.0.
__device__ __forceinline__ void read_x_scales(const Gemm1KernelArgs& a, const Shared<Traits>& s,
                                              int thread) {
  const int chunks = a.gemm.chunks;
  for (int i = thread; i < chunks * 8; i += kThreads) {
    const int chunk = i / 8, token = i % 8;
    uint32_t four = 0x7F7F7F7FU;
    if (token < a.tokens)
      four = __ldcg(reinterpret_cast<const uint32_t*>(a.x_scale) + token * chunks + chunk);
    s.x_scales()[i] = four;
  }
}

// kTokens, one thread. Rows of the box beyond T are zeros.
__device__ __forceinline__ void load_x(const GemmKernelArgs& a, const Shared<Traits>& s) {
  Control& c = s.control();
  cuda::ptx::fence_global_for_async();
  RingPlace at;
  for (Items i = s.items(a); i.next();) {
    for (int k = 0; k < a.chunks; k += Traits::kChunks, at.next(a.stages)) {
      const int count = min(Traits::kChunks, a.chunks - k);
      uint64_t& full = c.full[at.stage];
      cuda::ptx::wait(c.empty[at.stage], at.parity ^ 1U);
      cuda::ptx::arrive_expecting(full, static_cast<uint32_t>(count) * kTokenChunkBytes);
      for (int j = 0; j < count; ++j)
        cuda::ptx::copy_tile(s.stage(at.stage) + Layout::tokens_at(j), a.tokens, (k + j) * kChunk,
                             0, full);
    }
  }
}

// The largest magnitude of each token's block of 32 columns: eight lanes of four warps have them.
__device__ __forceinline__ void share_amax(Control& c, const Items& i, int w, int lane,
                                           float (&amax)[2]) {
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    for (int other = 4; other < cuda::kWarp; other *= 2)
      amax[t] = fmaxf(amax[t], __shfl_xor_sync(cuda::kWholeWarp, amax[t], other));
  }
  auto& of_warp = c.amax[i.turn % 2];
  if (lane < 4) {
    of_warp[w][2 * lane] = amax[0];
    of_warp[w][2 * lane + 1] = amax[1];
  }
  cuda::meet(kMultiplyWarps * cuda::kWarp, kAmaxBarrier);
#pragma unroll
  for (int other = 1; other < 4; ++other) {
#pragma unroll
    for (int t = 0; t < 2; ++t) amax[t] = fmaxf(amax[t], of_warp[w ^ other][2 * (lane % 4) + t]);
  }
}

// kMultiply, all lanes. Lane 4 g + t: of tokens 2 t, 2 t + 1 one column of the warp's 8.
__device__ __forceinline__ void multiply_and_store(const Gemm1KernelArgs& a,
                                                   const Shared<Traits>& s, int w, int lane) {
  Control& c = s.control();
  const cuda::SharedRecord record = s.record(a.gemm);
  RingPlace at;
  for (Items i = s.items(a.gemm); i.next();) {
    float d[4];
    multiply_item(a.gemm, s, at, w, lane, d);
    const float limit = __ldg(a.clamp + record.expert(i.tile));
    const cuda::TokenRows rows = cuda::rows_of_tokens(record, i.tile, 2 * (lane % 4));
    const int column = i.block * kHiddenOfBlock + hidden_column(w, lane);
    float h[2], amax[2];
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      h[t] = column < a.intermediate ? cuda::swiglu(d[t], d[2 + t], limit, 1.0F, 0.0F) : 0.0F;
      amax[t] = fmaxf(0.0F, fabsf(h[t]));  // fmaxf drops NaN
    }
    share_amax(c, i, w, lane, amax);
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      if (rows.row[t] < 0) continue;
      const uint32_t scale = cuda::hidden_scale_code(amax[t]);
      const auto code =
          static_cast<uint8_t>(cuda::hidden_codes(h[t], 0.0F, cuda::hidden_inverse(scale)) & 0xFFU);
      cuda::store_hidden_to_end(a, i, rows.row[t], column, code, scale);
    }
  }
}

}  // namespace
}  // namespace octet::sm120

extern "C" __global__ __launch_bounds__(octet::sm120::kThreads, 1) void gemm1_mxfp8_mxfp4_sm120(
    const __grid_constant__ octet::cuda::Gemm1KernelArgs a) {
  using namespace octet::sm120;
  extern __shared__ __align__(1024) uint8_t memory[];
  const Shared<Gemm1Traits> s{memory, a.gemm.stages};
  const int thread = static_cast<int>(threadIdx.x), warp = thread / octet::cuda::kWarp,
            lane = thread % octet::cuda::kWarp;
  begin(a.gemm, s, warp);
  octet::cuda::wait_for_previous();
  // GEMM2 may read the record as soon as it begins: this kernel's threads trigger it only after their own wait for whoever wrote it.
  octet::cuda::let_next_begin();
  octet::cuda::read_record(a.gemm, s.control().record, thread, kThreads);
  read_x_scales(a, s, thread);
  __syncthreads();
  if (warp == Role::kWeights) {
    if (octet::cuda::ptx::elect_one()) load_weights(a.gemm, s);
  } else if (warp == Role::kTokens) {
    if (octet::cuda::ptx::elect_one()) load_x(a.gemm, s);
  } else {
    multiply_and_store(a, s, warp - Role::kMultiply, lane);
  }
}

namespace octet::sm120 {

Status prepare_gemm1() {
  return cuda::allow_shared_bytes("gemm1_mxfp8_mxfp4_sm120", gemm1_mxfp8_mxfp4_sm120,
                                  kMostSharedBytes);
}

Status launch_gemm1(const GemmLaunch<Gemm1KernelArgs>& launch, int ctas, cudaStream_t stream) {
  return cuda::launch_gemm("gemm1_mxfp8_mxfp4_sm120", gemm1_mxfp8_mxfp4_sm120, kThreads, launch,
                           ctas, stream);
}

}  // namespace octet::sm120
