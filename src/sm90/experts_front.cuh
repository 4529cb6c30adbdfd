// SPDX-License-Identifier: Apache-2.0
// The front inside the experts' kernel: every CTA chooses experts for itself, since that is sooner than to be told; for MXFP8 x is quantised
// once, in pieces, by whoever comes first, and handed over by value; for BF16 every CTA puts it in order for itself.
//
//   logits, bias ──► topk ──► ids, weights ──► tiles, slots                    kMultiply of each CTA, in its shared memory; of CTA 0 to global memory
//   x [T, H] bf16 ──► early tickets ──► x records in the half ──► shared       kAux of some CTA; kMultiply of each: MXFP8
//   x [T, H] bf16 ──► shared                                                   kMultiply of each: BF16
//
// Rounding and order: cuda/topk_dsv4.cuh, mxfp8_quantize.cuh, routing/record.h. Truth: routing/, cpu::mxfp8_quantize.
#pragma once

#include "cuda/launch.h"
#include "cuda/mxfp8_quantize.cuh"
#include "cuda/topk_dsv4.cuh"
#include "sm90/copy_as_it_comes.cuh"
#include "sm90/experts_shared.cuh"
#include "sm90/launch_word.cuh"
#include "sm90/make_ready.cuh"

namespace octet::sm90 {

static_assert(sizeof(cuda::TopkShared) <= ExpertsRoles::kFrontBytes);
static_assert(cuda::kTopkThreads == ExpertsRoles::kComputeThreads &&
              cuda::kTopkRows >= kMostTokens &&
              cuda::kWarp * ExpertsRoles::kComputeWarps >= routing::kRouteMaxExperts);

// Who is routed where: bit t of an expert's mask is token t, bit e % 32 of word e / 32 expert e.
struct RouteMasks {
  uint32_t tokens[routing::kRouteMaxExperts];
  uint32_t experts[ExpertsRoles::kComputeWarps];
  int32_t tiles_before[ExpertsRoles::kComputeWarps];  // of a word of experts
};
static_assert(sizeof(RouteMasks) <= ExpertsRoles::kLeastPartsBytes);

// By kMultiply, in two steps with a meeting between them, and one before the next: ids and weights, in shared memory, and the masks.
template <int kKeys, class Traits>
__device__ __forceinline__ int choose_of(const ExpertsKernelArgs<Traits>& a, Shared& s,
                                         cuda::TopkShared& shared, RouteMasks& masks, int thread,
                                         bool is_warm_up) {
  TopkArgs topk = a.front.topk;
  topk.topk_ids = s.ids;
  topk.topk_weights = s.weights;
  if (is_warm_up) {  // whatever lies there
    topk.logits = &shared.weights[0][0];
    topk.bias_vl = nullptr;
  }
  const int id = cuda::topk_block<kKeys>(topk, 0, shared, [&] {
    masks.tokens[thread] = 0;
    if (thread < ExpertsRoles::kComputeWarps) masks.experts[thread] = 0;
  });
  const int expert = id - static_cast<int>(a.front.first_expert);
  if (id < 0 || expert < 0 || expert >= a.front.experts) return -1;
  atomicOr(&masks.tokens[expert], 1U << (thread / cuda::kWarp));
  atomicOr(&masks.experts[expert / cuda::kWarp], 1U << (expert % cuda::kWarp));
  return expert;
}
// With room for the experts of the common models, and for all.
template <class Traits>
__device__ __forceinline__ int choose(const ExpertsKernelArgs<Traits>& a, Shared& s,
                                      cuda::TopkShared& shared, RouteMasks& masks, int thread,
                                      bool is_warm_up) {
  const int64_t experts = a.front.topk.experts;
  return experts <= 8 * cuda::kWarp    ? choose_of<8>(a, s, shared, masks, thread, is_warm_up)
         : experts <= 12 * cuda::kWarp ? choose_of<12>(a, s, shared, masks, thread, is_warm_up)
                                       : choose_of<16>(a, s, shared, masks, thread, is_warm_up);
}
__device__ __forceinline__ uint32_t bits_below(int bit) { return (1U << bit) - 1; }
// Then: the tiles. A thread an expert.
__device__ __forceinline__ void make_tiles(Shared& s, RouteMasks& masks, int thread) {
  const int warp = thread / cuda::kWarp, lane = thread % cuda::kWarp;
  const int before = static_cast<int>(__reduce_add_sync(
      cuda::kWholeWarp, lane < warp ? static_cast<unsigned>(__popc(masks.experts[lane])) : 0U));
  const uint32_t own = masks.experts[warp], tokens = masks.tokens[thread];
  if (tokens != 0) s.tiles[before + __popc(own & bits_below(lane))] = {thread, tokens};
  if (lane != 0) return;
  masks.tiles_before[warp] = before;
  if (warp == ExpertsRoles::kComputeWarps - 1) s.num_tiles = before + __popc(own);
}
// And then: where slots have their rows. `expert`: lane j of warp t has slot j of token t, -1: nobody's.
template <class Traits>
__device__ __forceinline__ void place_slots(const ExpertsKernelArgs<Traits>& a, Shared& s,
                                            const RouteMasks& masks, int expert, int thread) {
  const int token = thread / cuda::kWarp, j = thread % cuda::kWarp, slot = token * a.top_k + j;
  if (token >= a.tokens || j >= a.top_k) return;
  int row = -1;
  if (expert >= 0) {
    const int word = expert / cuda::kWarp;
    const int tile =
        masks.tiles_before[word] + __popc(masks.experts[word] & bits_below(expert % cuda::kWarp));
    row = tile * 8 + __popc(masks.tokens[expert] & bits_below(token));
    s.slots[row] = static_cast<uint8_t>(slot);
  }
  s.permuted[slot] = row;
  s.slot_row[slot] = static_cast<int8_t>(row < 0 ? -1 : slot);  // no id repeats in a row
}
// What launch_front() leaves in global memory.
template <class Traits>
__device__ __forceinline__ void keep_choice(const ExpertsKernelArgs<Traits>& a, const Shared& s,
                                            int thread) {
  const int c_words = routing::cta_words<int32_t>(a.most_tiles),
            words = routing::record_words<int32_t>(a.most_tiles);
#pragma unroll 1
  for (int i = thread; i < words; i += ExpertsRoles::kComputeThreads) {
    const int row = i - 4 - 2 * c_words, of_tile = i - 4 - (i < 4 + c_words ? 0 : c_words),
              tile = row >= 0 ? row / 8 : of_tile;
    int32_t word = 0;
    if (i < 2) {
      word = i == 0 ? s.num_tiles * 8 : s.num_tiles;
    } else if (i >= 4 && tile < s.num_tiles) {
      const Tile t = s.tiles[tile];
      word =
          row >= 0
              ? (row % 8 < rows_of(t) ? static_cast<int32_t>(__fns(t.tokens, 0, row % 8 + 1)) : 0)
          : i < 4 + c_words ? t.expert
                            : tile * 8 + rows_of(t);
    }
    a.front.record[i] = word;
  }
  if (thread >= a.tokens * a.top_k) return;
  a.front.topk.topk_ids[thread] = s.ids[thread];
  a.front.topk.topk_weights[thread] = s.weights[thread];
  a.front.permuted[thread] = s.permuted[thread];
}

// ---- early tickets: clearing, where it is wanted, then x

// A warp: until all of the half is clear.
__device__ __forceinline__ void wait_until_cleared(const uint64_t* word, int lane) {
  if (lane == 0) {
    ptx::Watchdog watchdog;
    while (LaunchWord{load_word(word)}.cleared() != LaunchWord::kClearPieces) {
      __nanosleep(100);
      watchdog.check("a clear half");
    }
    __threadfence();
  }
  __syncwarp();
}
// A warp: 16-byte words piece, piece + kClearPieces ... of a half.
template <class Traits>
__device__ __forceinline__ void clear_piece(const ExpertsKernelArgs<Traits>& a, uint8_t* half,
                                            int piece, int lane) {
  clear_hand_over(half, a.half_bytes, piece * cuda::kWarp + lane,
                  LaunchWord::kClearPieces * cuda::kWarp);
  __threadfence();
  __syncwarp();
  if (lane == 0) add_to_word(a.word, LaunchWord::kCleared);
}
// A warp: eight elements a lane; blocks of 32 are whole in a row, and rows of records beyond T and H are zeros.
template <class Traits>
__device__ __forceinline__ void quantize_piece(const ExpertsKernelArgs<Traits>& a, uint8_t* half,
                                               int piece, int lane) {
  constexpr int kElems = cuda::kQuantizeElems;
  const int of_a_row = a.plan.w13.pairs * (ActivationRecord::kWidth / kElems);
  const int i = piece * cuda::kWarp + lane, row = i / of_a_row, k = i % of_a_row * kElems;
  const bool is_there = row < a.tokens && k < a.hidden;
  uint4 raw = make_uint4(0, 0, 0, 0);
  if (is_there) raw = *reinterpret_cast<const uint4*>(a.front.x + int64_t{row} * a.hidden + k);
  const cuda::QuantizedElems q = cuda::quantize_elems(raw);
  if (row < a.plan.rows)
    store_record(half + ExpertsWorkspace::kXAt, a.plan.rows, row, k, q.codes,
                 is_there ? q.scale : 127);
}
// Aux warp `warp`: early tickets until there are no more, then this CTA's part of the half for the next launch.
template <class Traits>
__device__ __forceinline__ void prepare(const ExpertsKernelArgs<Traits>& a, const Shared& s,
                                        int warp, int lane) {
  cuda::meet(kEntered, kHalfKnown);
  const int clears = s.word.is_ready() ? 0 : LaunchWord::kClearPieces,
            end = clears + (Traits::kHandsXOver && a.front.x != nullptr
                                ? x_pieces(a.plan.rows, a.plan.w13.pairs)
                                : 0);
  for (int ticket = s.word.early() + warp; ticket < end;) {
    if (ticket < clears) {
      clear_piece(a, s.half, ticket, lane);
    } else if constexpr (Traits::kHandsXOver) {
      if (clears != 0) wait_until_cleared(a.word, lane);
      quantize_piece(a, s.half, ticket - clears, lane);
    }
    if (lane == 0) ticket = LaunchWord{add_to_word(a.word, LaunchWord::kEarlyTicket)}.early();
    ticket = __shfl_sync(cuda::kWholeWarp, ticket, 0);
  }
  constexpr int kLanes = ExpertsRoles::kAuxWarps * cuda::kWarp;
  clear_hand_over(a.halves + (1 - s.word.half()) * a.half_bytes, a.half_bytes,
                  static_cast<int>(blockIdx.x) * kLanes + warp * cuda::kWarp + lane,
                  static_cast<int>(gridDim.x) * kLanes);
}

// By kMultiply: x, which lies in its records' room as it is, as records, zeros behind H. A thread takes what a lane wants of a block at a time, and
// all of its own before anybody writes.
template <class Traits>
__device__ __forceinline__ void order_x(uint8_t* x, const ExpertsKernelArgs<Traits>& a,
                                        int thread) {
  using Record = typename Traits::Record;
  constexpr int kBlock = 32, kOwn = Traits::kMostXElems / 8 / ExpertsRoles::kComputeThreads;
  const int of_a_row = a.plan.w13.pairs * (Record::kWidth / kBlock * 4),
            count = a.tokens * of_a_row;
  uint4 v[kOwn];
  uint32_t at[kOwn];
#pragma unroll
  for (int n = 0; n < kOwn; ++n) {
    const int i = thread + n * ExpertsRoles::kComputeThreads;
    if (i >= count) break;
    const int row = i / of_a_row, of_row = i - row * of_a_row,
              k = of_row / 4 * kBlock + of_row % 4 * 4;
    at[n] = Record::at(a.tokens, row, k);
    v[n] = make_uint4(0, 0, 0, 0);
    if (k >= a.hidden) continue;
    const uint8_t* const from = x + (row * a.hidden + k) * 2;
    const uint2 low = *reinterpret_cast<const uint2*>(from),
                high = *reinterpret_cast<const uint2*>(from + 32);
    v[n] = make_uint4(low.x, low.y, high.x, high.y);
  }
  cuda::meet(ExpertsRoles::kComputeThreads, kFront);
#pragma unroll
  for (int n = 0; n < kOwn; ++n) {
    if (thread + n * ExpertsRoles::kComputeThreads >= count) break;
    *reinterpret_cast<uint4*>(x + at[n]) = v[n];
  }
}
// By kMultiply: all of x to this CTA.
template <class Traits>
__device__ __forceinline__ void bring_x(const ExpertsKernelArgs<Traits>& a, Shared& s,
                                        const Rings<Traits>& rings, int thread) {
  uint8_t* const to = rings.base + rings.x_at;
  if constexpr (Traits::kHandsXOver) {
    copy_as_it_comes(to, s.half + ExpertsWorkspace::kXAt, a.plan.x_bytes(), thread,
                     ExpertsRoles::kComputeThreads);
  } else {
    ptx::wait(s.x_full, 0);
    order_x(to, a, thread);
  }
  ptx::fence_shared_for_async();
}

}  // namespace octet::sm90
