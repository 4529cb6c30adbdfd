// SPDX-License-Identifier: Apache-2.0
// gemm1_mxfp8_mxfp4_sm100: first expert GEMM, SwiGLU and MXFP8 quantisation of h, for at most eight tokens.
//
//   x_quant [T, H] e4m3, x_scale [T, H/32] ───┐
//   record (routing/record.h), clamp [E] ─────┼──► gemm1 ──► h_values [8 ctas, Ip] e4m3, h_scales
//   w13 [E, 2 Ip, H/2] e2m1, w13_scale 128x4 ─┘
//
// T 1 ... 8, H a multiple of 128, the rest: check_gemm1(). All tokens are columns of every product; a tile stores those that are routed to it.
// Rounding: sums f32, k ascending (the tensor core's own order inside 32 k); cuda/swiglu.cuh; cuda/prepared_hidden.cuh. Truth: reference::gemm1.
// Source: semantics.md section 7. Roles and hand-over: gemm_shared.cuh, docs/kernels/gemm_sm100.md. Checked: ptxsim.
#include "cuda/launch.h"
#include "cuda/prepared_launch.h"
#include "cuda/swiglu.cuh"
#include "sm100/gemm_launch.h"
#include "sm100/gemm_roles.cuh"

namespace octet::sm100 {
namespace {

using Traits = Gemm1Traits;
using Layout = StageLayout<Traits>;

// By all threads: eight lines a chunk, of a token's scales of 4 x 32 k and then 1.0; where there is no token, and in the slack, all 1.0.
__device__ __forceinline__ void fill_x_scales(const Gemm1KernelArgs& a, const Shared<Traits>& s,
                                              int thread) {
  constexpr uint32_t kOnes = 0x7F7F7F7FU;
  const int chunks = a.gemm.chunks, lines = chunks * 8 + kScaleSlack / 16;
  for (int i = thread; i < lines; i += kThreads) {
    const int chunk = i / 8, token = i % 8;
    uint32_t four = kOnes;
    if (chunk < chunks && token < a.tokens)
      four = __ldcg(reinterpret_cast<const uint32_t*>(a.x_scale) + token * chunks + chunk);
    reinterpret_cast<uint4*>(s.x_scales(0))[i] = make_uint4(four, kOnes, kOnes, kOnes);
  }
}

// kTokens, one thread. Rows of the box beyond T are zeros.
__device__ __forceinline__ void load_x(const GemmKernelArgs& a, const Shared<Traits>& s) {
  Control<Traits>& c = s.control();
  ptx::fence_global_for_async();
  RingPlace at;
  for (Items i = items_of(a, c); i.next();) {
    for (int k = 0; k < a.chunks; k += Traits::kChunks, at.next(a.stages)) {
      const int count = min(Traits::kChunks, a.chunks - k);
      uint64_t& full = c.full[at.stage];
      ptx::wait(c.empty[at.stage], at.parity ^ 1U);
      ptx::arrive_expecting(full, static_cast<uint32_t>(count) * kTokenChunkBytes);
      for (int j = 0; j < count; ++j)
        ptx::copy_tile(s.stage(at.stage) + Layout::tokens_at(j), a.tokens, (k + j) * kChunk, 0,
                       full);
    }
  }
}

// The largest magnitude of each token's block of 32 columns: eight lanes of two warps have them.
__device__ __forceinline__ void share_amax(Control<Traits>& c, const Items& i, int quarter,
                                           int lane, float (&amax)[2]) {
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    for (int other = 4; other < cuda::kWarp; other *= 2)
      amax[t] = fmaxf(amax[t], __shfl_xor_sync(cuda::kWholeWarp, amax[t], other));
  }
  auto& of_warp = c.amax[i.turn % 2];
  if (lane < 4) {
    of_warp[quarter][2 * lane] = amax[0];
    of_warp[quarter][2 * lane + 1] = amax[1];
  }
  cuda::meet(Role::kStoreWarps * cuda::kWarp, kAmaxBarrier);
#pragma unroll
  for (int t = 0; t < 2; ++t) amax[t] = fmaxf(amax[t], of_warp[quarter ^ 1][2 * (lane % 4) + t]);
}

// kStore, all lanes. Lane 4 r + c: of tokens 2 c, 2 c + 1 columns 2 r, 2 r + 1 of the warp's 16.
__device__ __forceinline__ void store_items(const Gemm1KernelArgs& a, const Shared<Traits>& s,
                                            int quarter, int lane) {
  Control<Traits>& c = s.control();
  for (Items i = items_of(a.gemm, c); i.next();) {
    const cuda::SharedRecord record = record_of(a.gemm, c);
    const float limit = __ldg(a.clamp + record.expert(i.tile));
    const cuda::TokenRows rows = cuda::rows_of_tokens(record, i.tile, 2 * (lane % 4));
    const int of_block = hidden_column(quarter, lane);
    const int column = i.block * kHiddenOfBlock + of_block;
    uint32_t sums[8];
    take_sums(c, i, quarter, lane, sums);
    float h[2][2], amax[2] = {0.0F, 0.0F};  // [token][column]
#pragma unroll
    for (int t = 0; t < 2; ++t) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float up = __uint_as_float(sums[4 * j + t]),
                    gate = __uint_as_float(sums[4 * j + 2 + t]);
        h[t][j] = column + j < a.intermediate ? cuda::swiglu(up, gate, limit, 1.0F, 0.0F) : 0.0F;
        amax[t] = fmaxf(amax[t], fabsf(h[t][j]));  // fmaxf drops NaN
      }
    }
    share_amax(c, i, quarter, lane, amax);
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      if (rows.row[t] < 0) continue;
      const uint32_t scale = cuda::hidden_scale_code(amax[t]);
      cuda::store_hidden_to_end(a, i, rows.row[t], column,
                                cuda::hidden_codes(h[t][0], h[t][1], cuda::hidden_inverse(scale)),
                                scale);
    }
  }
}

}  // namespace
}  // namespace octet::sm100

extern "C" __global__ __launch_bounds__(octet::sm100::kThreads, 1) void gemm1_mxfp8_mxfp4_sm100(
    const __grid_constant__ octet::cuda::Gemm1KernelArgs a) {
  using namespace octet::sm100;
  extern __shared__ __align__(1024) uint8_t memory[];
  const Shared<Gemm1Traits> s{memory, a.gemm.stages};
  const int thread = static_cast<int>(threadIdx.x), warp = thread / octet::cuda::kWarp,
            lane = thread % octet::cuda::kWarp;
  begin(a.gemm, s, warp);
  octet::cuda::wait_for_previous();
  // GEMM2 may read the record as soon as it begins: this kernel's threads trigger it only after their own wait for whoever wrote it.
  octet::cuda::let_next_begin();
  octet::cuda::read_record(a.gemm, s.control().record, thread, kThreads);
  fill_x_scales(a, s, thread);
  ptx::fence_shared_for_async();
  __syncthreads();
  if (warp == Role::kWeights) {
    if (ptx::elect_one()) load_weights(a.gemm, s);
  } else if (warp == Role::kTokens) {
    if (ptx::elect_one()) load_x(a.gemm, s);
  } else if (warp == Role::kMultiply) {
    if (ptx::elect_one()) multiply_items(a.gemm, s);
  } else if (warp >= Role::kStore) {
    store_items(a, s, warp - Role::kStore, lane);
  }
  end(s, warp);
}

namespace octet::sm100 {

Status prepare_gemm1() {
  return cuda::allow_shared_bytes("gemm1_mxfp8_mxfp4_sm100", gemm1_mxfp8_mxfp4_sm100,
                                  kMostSharedBytes);
}

Status launch_gemm1(const GemmLaunch<Gemm1KernelArgs>& launch, int ctas, cudaStream_t stream) {
  return cuda::launch_gemm("gemm1_mxfp8_mxfp4_sm100", gemm1_mxfp8_mxfp4_sm100, kThreads, launch,
                           ctas, stream);
}

}  // namespace octet::sm100
