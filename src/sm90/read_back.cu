// SPDX-License-Identifier: Apache-2.0
// read_back: a block a slot.
//
//   h records (activation_record.h) of tiles, by the routing record ──► h_values [T k, I], h_scales [T k, I/32], or h [T k, I], row = slot
//   slot_row [T, k] ──► permuted [T, k]
//
// Shapes, errors: read_back.h. Source: semantics.md section 7. Tested by tests/cuda/sm90_layer_test.cu and `octet check`.
#include "cuda/launch.h"
#include "routing/record.h"
#include "sm90/activation_record.h"
#include "sm90/launch_word.cuh"
#include "sm90/read_back.h"

namespace octet::sm90 {
namespace {

constexpr int kThreads = 256;

struct Args {
  const uint64_t* word;
  const uint8_t* h;                // half 0's
  int64_t half_bytes, tile_bytes;  // of h
  const int32_t *record, *padded_row, *slot_row;
  int intermediate, most_tiles;
  uint8_t *h_values, *h_scales;
  Bf16* h_bf16;
  int32_t* permuted;
  int32_t first_row;
};

// scale_bits() backwards.
__device__ __forceinline__ uint8_t scale_code(uint32_t bits) {
  return static_cast<uint8_t>(bits == scale_bits(0)     ? 0
                              : bits == scale_bits(255) ? 255
                                                        : bits >> 23);
}

__global__ __launch_bounds__(kThreads) void read_back_kernel(const __grid_constant__ Args a) {
  cuda::let_next_begin();
  cuda::wait_for_previous();
  const auto slot = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const int row = a.slot_row[slot];
  if (a.permuted != nullptr && thread == 0) a.permuted[slot] = row < 0 ? -1 : row + a.first_row;
  if (row != slot) return;  // nobody's, or an id's second slot
  const int padded = a.padded_row[slot], tile = padded / 8, of_tile = padded % 8;
  const routing::RecordView view(a.record, a.most_tiles);
  const int num_rows = view.limit[tile] - tile * 8, rows = ActivationRecord::padded_rows(num_rows);
  const uint8_t* const from =
      a.h + LaunchWord{*a.word}.last_half() * a.half_bytes + tile * a.tile_bytes;
  const int64_t first = int64_t{slot} * a.intermediate;
  for (int k = thread; a.h_bf16 != nullptr && k < a.intermediate; k += kThreads)
    a.h_bf16[first + k] =
        *reinterpret_cast<const Bf16*>(from + Bf16Record::at(num_rows, of_tile, k));
  for (int k = thread; k < a.intermediate; k += kThreads) {
    if (a.h_values != nullptr)
      a.h_values[first + k] = from[ActivationRecord::code_at(rows, of_tile, k)];
    if (a.h_scales != nullptr && k % static_cast<int>(kMxBlock) == 0) {
      const uint8_t* const scale = from + ActivationRecord::scale_at(rows, of_tile, k);
      a.h_scales[(first + k) / kMxBlock] = scale_code(*reinterpret_cast<const uint32_t*>(scale));
    }
  }
}

}  // namespace

Status launch_read_back(const ReadBackArgs& args, cudaStream_t stream) {
  if (args.h_values == nullptr && args.h_scales == nullptr && args.h == nullptr &&
      args.permuted == nullptr)
    return {};
  const cuda::ExpertGemmArgs& g = args.experts->gemm;
  const ExpertsWorkspace at = experts_workspace(g);
  const int64_t tiles = routing::max_ctas(g.tokens, g.top_k, g.weights.experts);
  const auto* const workspace = static_cast<const uint8_t*>(g.workspace);
  const Args a{.word = reinterpret_cast<const uint64_t*>(workspace + ExpertsWorkspace::kWordAt),
               .h = workspace + ExpertsWorkspace::kHalvesAt + at.h_at,
               .half_bytes = at.half_bytes,
               .tile_bytes = at.h_bytes / tiles,
               .record = g.record,
               .padded_row = g.permuted,
               .slot_row = g.slot_row,
               .intermediate = static_cast<int>(g.intermediate),
               .most_tiles = static_cast<int>(tiles),
               .h_values = args.h_values,
               .h_scales = args.h_scales,
               .h_bf16 = args.h,
               .permuted = args.permuted,
               .first_row = args.first_row};
  return cuda::launch("read_back", read_back_kernel,
                      dim3(static_cast<unsigned>(g.tokens * g.top_k)), kThreads, a, stream);
}

}  // namespace octet::sm90
