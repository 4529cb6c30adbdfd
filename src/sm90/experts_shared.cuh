// SPDX-License-Identifier: Apache-2.0
// The experts' kernel: arguments, shared memory, and what its warps tell each other. docs/kernels/gemm_mxfp8.md.
//
// Hand-over         filled by    waited on by  says
// scheduled         kScheduler   kLoader       copies[0 ... num_copies - 1] are to be made
// taken             kLoader      kScheduler    of these only the last kAhead have not begun
// full[g][turn]     kLoader      warpgroup g   its next stage has landed; stage[g][turn], stage_end[g][turn] are which
// empty[slot]       kMultiply    kLoader       the stage in this slot has been read, by four warps
// record_full       kLoader      kMultiply     without a front: the routing record has landed
// x_full            kLoader      kMultiply     the activations have landed: of BF16, and of MXFP8 without a front
// visit[n]          kScheduler   kAux          visit_tile[n] is the next tile whose h is wanted; -1: no more
// h_full[n]         kAux         kMultiply     that tile's h is in its slot (kScheduler, too, where a CTA has few units)
// h_empty[slot]     kMultiply    kAux          and has been read: four warps for each of a chunk's units, which share kHReaders
// parts_in          kMultiply    -             how many warpgroups have left their sums of a unit: the last one goes on with it
// blocks_in         kMultiply    -             how many warps have left their eight columns of h: the last one quantises
//
// Barriers of threads (cuda::meet): kBegun, the table's may be used; kFront, kMultiply's own; kHalfKnown, kScheduler to kAux: word, half;
// kTilesRead, kMultiply to kScheduler and kAux: tiles, num_tiles, and the front's room is free for stages; kPlaced, kMultiply to kAux: slots,
// slot_row, permuted, weights. Limits and x are there behind kMultiply's last kFront, and the record's room is free for sums.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/op_args.h"
#include "cuda/warp.cuh"
#include "sm90/experts_mxfp8.h"
#include "sm90/experts_plan.h"
#include "sm90/launch_word.cuh"
#include "sm90/ptx/mbarrier.cuh"
#include "sm90/tiles.cuh"

namespace octet::sm90 {

// The front's part, x null: none.
struct FrontKernelArgs {
  const Bf16* x;
  TopkArgs topk;
  int64_t first_expert, experts;
  int32_t *permuted, *record;
};

template <class Traits>
struct ExpertsKernelArgs {
  ExpertsPlan<Traits> plan;
  FrontKernelArgs front;
  float alpha, beta;
  const uint8_t* weights;
  int64_t expert_bytes, w2_offset;
  const float* limit;                           // [E] or null
  const Bf16 *gate_bias, *up_bias, *down_bias;  // [E, I], [E, I], [E, H] or null
  const int32_t *record, *permuted;
  int tokens, top_k, hidden, most_tiles;  // most_tiles: that the record has room for
  uint64_t* word;                         // launch_word.cuh
  uint8_t* halves;
  int64_t half_bytes, h_at, rows_at;  // h [tiles][plan.h_tile_bytes()], rows [T k, H]
  Bf16* rows;                         // [T k, H]; null: those of the half
  int32_t* slot_row;                  // [T, k]
  const float* topk_weights;          // [T, k]
  const Bf16* shared;                 // [T, H] or null
  float scale;
  Bf16* y;  // [T, H]; null: rows are all that is wanted
  // BF16 only.
  const Bf16* x;                                    // [T, H]
  const float *gate_alpha, *up_alpha, *down_alpha;  // [E] or null
};

// What a warpgroup does with the stage that has landed: all that the scheduler's lanes can work out beside each other, since four warps
// would each do it once more, a stage after the other.
struct alignas(16) Stage {
  uint32_t weights;            // its strips; bytes of Rings::base
  uint32_t activations;        // its k's records
  uint8_t pairs, padded_rows;  // of both
  Work::Kind kind;
  uint8_t h, h_parity;  // of second matrices: h_full[h]
};
static_assert(sizeof(Stage) == 16);
// And then with its sums.
struct alignas(16) StageEnd {
  // Share: all leaves of the unit that are this warpgroup's.
  enum Flags : uint8_t { kEndsLeaf = 1, kEndsShare = 2 };
  uint16_t tile, unit;
  uint8_t flags, slot, leaf;
  uint8_t buffer;          // of first matrices: for the sums
  uint8_t rows;            // of the tile
  uint8_t h_slot, weight;  // of second matrices: an arrival on h_empty[h_slot]
};
static_assert(sizeof(StageEnd) == 16);

// What kLoader does for it.
struct alignas(16) Copy {
  const uint8_t* from;
  uint32_t bytes;                     // 0: of the word that there is no more
  uint8_t group, turn, slot, parity;  // full[group][turn]; once empty[slot] has passed `parity`
};

struct Shared {
  static constexpr int kTogether = 8;  // copies that are scheduled at a time
  static constexpr int kAhead = 2;     // of them are not yet begun when the next ones are scheduled
  // Of a warpgroup: as many stages as can be in slots, scheduled, or about to be.
  static constexpr int kTurns = 16;
  static_assert(kTurns >= ExpertsRoles::kMostSlots + kAhead + kTogether);
  // Visits n and n + kVisits are never under way together: there are more than stages. So a parity tells them apart.
  static constexpr int kVisits = kTurns + 1 + ExpertsRoles::kAuxWarps;
  static constexpr int kHReaders = 12;  // a multiple of every number of units in a chunk
  // Barriers, one behind the other: those of one arrival, and of more.
  uint64_t full[ExpertsRoles::kWarpgroups][kTurns];
  uint64_t visit[kVisits], h_full[kVisits];
  uint64_t scheduled, taken, record_full, x_full;
  uint64_t empty[ExpertsRoles::kMostSlots];
  uint64_t h_empty[ExpertsRoles::kMostHSlots];
  static constexpr int kEmptyAt = ExpertsRoles::kWarpgroups * kTurns + 2 * kVisits + 4,
                       kHEmptyAt = kEmptyAt + ExpertsRoles::kMostSlots,
                       kBarriers = kHEmptyAt + ExpertsRoles::kMostHSlots;
  uint8_t *half, *h;  // this launch's
  LaunchWord word;
  Bf16* rows;
  Stage stage[ExpertsRoles::kWarpgroups][kTurns];
  StageEnd stage_end[ExpertsRoles::kWarpgroups][kTurns];
  Copy copies[kTogether];
  int32_t num_copies;
  int32_t visit_tile[kVisits];
  uint32_t parts_in[ExpertsRoles::kMostBuffers][4], blocks_in[ExpertsRoles::kMostBuffers];
  Tile tiles[kMostTiles];
  float limits[kMostTiles];
  int32_t num_tiles;
  int32_t permuted[kMostTiles], ids[kMostTiles];  // of slots
  float weights[kMostTiles];                      // of slots
  uint8_t slots[kMostTiles * 8];                  // padded row to its first slot
  int8_t slot_row[kMostTiles];                    // slot to its row's first slot, or -1
};

static_assert(offsetof(Shared, empty) == sizeof(uint64_t) * Shared::kEmptyAt &&
              offsetof(Shared, h_empty) == sizeof(uint64_t) * Shared::kHEmptyAt);

template <class Traits>
struct SharedOf : Shared, Traits::SharedMore {};

// Dynamic shared memory, taken apart.
template <class Traits>
struct Rings {
  using Plan = ExpertsPlan<Traits>;
  uint8_t* base;  // [num_slots()][slot_bytes()]: stages; before them, the front's
  uint32_t x_at;  // records of all of H
  uint32_t h_at;  // [h_slots][h_tile_bytes() and slack]
  // [buffers][parts][4 warps][32 lanes]; behind h, where products read further than there is
  float4* parts;
  // The routing record, until its tiles have been read: before the first sums.
  __device__ __forceinline__ int32_t* record() const { return reinterpret_cast<int32_t*>(parts); }
  __device__ Rings(uint8_t* at, const Plan& p)
      : base(at),
        x_at(static_cast<uint32_t>(p.ring_bytes())),
        h_at(x_at + static_cast<uint32_t>(p.with_slack(p.x_bytes()))),
        parts(reinterpret_cast<float4*>(base + h_at + p.h_slots * p.with_slack(p.h_tile_bytes()))) {
  }
  __device__ __forceinline__ uint32_t slot_at(const Plan& p, int n) const {
    return static_cast<uint32_t>(n * p.slot_bytes());
  }
  __device__ __forceinline__ uint32_t h_slot_at(const Plan& p, int n) const {
    return h_at + static_cast<uint32_t>(n * p.with_slack(p.h_tile_bytes()));
  }
};

// Turns through the slots of a ring, and the parity of the phase.
template <int kSlots>
struct Turn {
  int slot = 0;
  uint32_t parity = 0;
  __device__ __forceinline__ void advance() {
    if (++slot < kSlots) return;
    slot = 0;
    parity ^= 1;
  }
};

enum Barrier : int { kFront = 1, kTilesRead, kBegun, kHalfKnown, kPlaced };
constexpr int kEntered = (1 + ExpertsRoles::kAuxWarps) * cuda::kWarp,  // of kHalfKnown
    kPlacing = ExpertsRoles::kComputeThreads + ExpertsRoles::kAuxWarps * cuda::kWarp;  // of kPlaced

// All threads, before any may touch a barrier: each warp some, since a warp's lanes initialise one after the other.
__device__ __forceinline__ void init_shared(Shared& s, int thread) {
  constexpr int kWarps = ExpertsRoles::kThreads / cuda::kWarp;
  const int i =
      thread % cuda::kWarp * kWarps + thread / cuda::kWarp;  // neighbours in different warps
  if (i < Shared::kBarriers) {
    uint32_t arrivals = 1;
    if (i >= Shared::kEmptyAt) arrivals = 4;
    if (i >= Shared::kHEmptyAt) arrivals = 4 * Shared::kHReaders;
    ptx::init_barrier((&s.full[0][0])[i], arrivals);
  }
  if (thread < ExpertsRoles::kMostBuffers) {
    s.blocks_in[thread] = 0;
    for (uint32_t& parts : s.parts_in[thread]) parts = 0;
  }
  ptx::fence_barrier_init();
}

}  // namespace octet::sm90
