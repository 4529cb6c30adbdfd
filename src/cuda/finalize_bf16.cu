// SPDX-License-Identifier: Apache-2.0
// finalize_bf16: weighted sum of the routed experts' rows, back in token order.
//
//   rows     [N, H] bf16 ──┐
//   permuted [T, k] i32  ──┤
//   weight   [T, k] f32  ──┼──► finalize ──► y [T, H] bf16
//   shared   [T, H] bf16 ──┘  (or null)
//
// Any T and k; H % 8 == 0; pointers 16-byte aligned. A negative `permuted` is skipped.
// Rounding: acc = fma(weight, row, acc), slots ascending, in f32; then fma(acc, scale, shared) or acc * scale; one rounding to
// bf16. No atomics, so the same bytes as cpu::finalize on any grid.
// Errors: kUnsupported with the failing value. Truth: reference::finalize. Source: semantics.md section 8.
// Checked: see docs/kernels/finalize_bf16.md.
#include <algorithm>
#include <string>

#include "cuda/bf16_lanes.cuh"
#include "cuda/finalize_bf16.h"
#include "cuda/launch.h"

namespace octet::cuda {
namespace {

struct FinalizeTraits {
  static constexpr int kThreads = 128;
  static constexpr int kColsPerThread = kBf16Lanes;
  static constexpr int kColsPerBlock = kThreads * kColsPerThread;
};

// Block (x, y): columns x * kColsPerBlock ... of token y, and of every gridDim.y-th one after it.
template <class Traits>
__global__ __launch_bounds__(Traits::kThreads) void finalize_kernel(
    const __grid_constant__ FinalizeArgs a) {
  let_next_begin();
  wait_for_previous();
  const int64_t col =
      int64_t{blockIdx.x} * Traits::kColsPerBlock + threadIdx.x * Traits::kColsPerThread;
  if (col >= a.hidden) return;
  for (int64_t token = blockIdx.y; token < a.tokens; token += gridDim.y) {
    float acc[kBf16Lanes] = {};
    for (int64_t slot = token * a.top_k; slot < (token + 1) * a.top_k; ++slot) {
      const int row = a.permuted[slot];
      if (row < 0) continue;
      const float weight = a.topk_weights[slot];
      float v[kBf16Lanes];
      load_lanes(v, a.rows + row * a.hidden + col);
#pragma unroll
      for (int i = 0; i < kBf16Lanes; ++i) acc[i] = fmaf(weight, v[i], acc[i]);
    }
    float shared[kBf16Lanes] = {};
    if (a.shared != nullptr) load_lanes(shared, a.shared + token * a.hidden + col);
#pragma unroll
    for (int i = 0; i < kBf16Lanes; ++i)
      acc[i] = a.shared != nullptr ? fmaf(acc[i], a.scale, shared[i]) : acc[i] * a.scale;
    store_lanes(a.y + token * a.hidden + col, acc);
  }
}

}  // namespace

Status launch_finalize_bf16(const FinalizeArgs& args, cudaStream_t stream) {
  constexpr int64_t kMostRowsOfGrid = 65535;
  if (args.hidden % FinalizeTraits::kColsPerThread != 0) {
    return unsupported("hidden " + std::to_string(args.hidden) + " is not a multiple of 8");
  }
  if (args.tokens == 0 || args.hidden == 0) return {};
  const dim3 grid(static_cast<unsigned>(ceil_div(args.hidden, FinalizeTraits::kColsPerBlock)),
                  static_cast<unsigned>(std::min(args.tokens, kMostRowsOfGrid)));
  return launch("finalize_bf16", finalize_kernel<FinalizeTraits>, grid, FinalizeTraits::kThreads,
                args, stream);
}

}  // namespace octet::cuda
