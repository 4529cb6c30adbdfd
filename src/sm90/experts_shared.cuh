// SPDX-License-Identifier: Apache-2.0
// The experts' kernel: arguments, shared memory, and what its warps tell each other. docs/kernels/gemm_mxfp8.md.
//
// Hand-over         filled by    waited on by  says
// full[g][turn]     kLoader      warpgroup g   its next stage has landed; stage[g][turn] is which
// empty[slot]       kMultiply    kLoader       the stage in this slot has been read, by four warps
// record_full       kLoader      the others    the routing record has landed
// x_full            kLoader      kMultiply     the activations have landed
// visit[n]          kLoader      kAux          visit_tile[n] is the next tile whose h is wanted; -1: no more
// h_full[n]         kAux         kMultiply     that tile's h is in its slot
// h_empty[slot]     kMultiply    kAux          and has been read: four warps for each of a chunk's units, which share kHReaders
// rows_done         kMultiply    kAux          this CTA's rows have been stored: the others' are near
// parts_in          kMultiply    -             how many warpgroups have left their sums of a unit: the last one goes on with it
// blocks_in         kMultiply    -             how many warps have left their eight columns of h: the last one quantises
#pragma once

#include <cstdint>

#include "cuda/warp.cuh"
#include "sm90/experts_plan.h"
#include "sm90/tiles.cuh"

namespace octet::sm90 {

struct ExpertsKernelArgs {
  ExpertsPlan plan;
  float alpha, beta;
  const uint8_t* weights;
  int64_t expert_bytes, w2_offset;
  const float* limit;                           // [E] or null
  const Bf16 *gate_bias, *up_bias, *down_bias;  // [E, I], [E, I], [E, H] or null
  const int32_t *record, *permuted;
  int tokens, top_k, hidden, most_tiles;  // most_tiles: that the record has room for
  const uint8_t* x;
  uint8_t* h;                 // [tiles][plan.h_tile_bytes()]
  uint32_t* tickets;          // the next one
  Bf16* rows;                 // [T k, H]
  int32_t* slot_row;          // [T, k]
  const float* topk_weights;  // [T, k]
  const Bf16* shared;         // [T, H] or null
  float scale;
  Bf16* y;  // [T, H]; null: rows are all that is wanted
};

// What a warpgroup does with the stage that has landed: all that the loader's lanes can work out beside each other, since four warps would
// each do it once more, a stage after the other.
struct alignas(16) Stage {
  enum Flags : uint8_t {
    kEndsLeaf = 1,
    kEndsShare = 2
  };                           // share: all leaves of the unit that are this warpgroup's
  uint32_t weights;            // its strips; bytes of Rings::base
  uint32_t activations;        // its k's records
  uint8_t pairs, padded_rows;  // of both
  Work::Kind kind;
  uint8_t flags, slot, leaf;
  uint8_t buffer;          // of first matrices: for the sums
  uint8_t rows;            // of the tile
  uint8_t h, h_parity;     // of second matrices: h_full[h]
  uint8_t h_slot, weight;  // an arrival on h_empty[h_slot]
  uint16_t tile, unit;
};
static_assert(sizeof(Stage) == 32);

// What the loader does for it.
struct alignas(16) Copy {
  const uint8_t* from;
  uint32_t bytes;                     // 0: of the word that there is no more
  uint8_t group, turn, slot, parity;  // full[group][turn]; once empty[slot] has passed `parity`
};

struct Shared {
  static constexpr int kTogether = 8;  // copies that are planned at a time
  static constexpr int kAhead = 2;     // of them are not yet begun when the next ones are planned
  // Of a warpgroup: as many stages as can be in slots, planned, or about to be.
  static constexpr int kTurns = 24;
  static_assert(kTurns >= ExpertsPlan::kMostSlots + kAhead + kTogether);
  // Visits n and n + kVisits are never under way together: there are more than stages. So a parity tells them apart.
  static constexpr int kVisits =
      ExpertsPlan::kMostSlots + 2 * kTogether + 1 + ExpertsPlan::kAuxWarps;
  static constexpr int kHReaders = 12;  // a multiple of every number of units in a chunk
  uint64_t full[ExpertsPlan::kWarpgroups][kTurns];
  uint64_t empty[ExpertsPlan::kMostSlots];
  uint64_t planned, taken, record_full, x_full, rows_done;
  uint64_t h_empty[ExpertsPlan::kMostHSlots];
  uint64_t visit[kVisits], h_full[kVisits];
  Stage stage[ExpertsPlan::kWarpgroups][kTurns];
  Copy copies[kTogether];
  int32_t num_copies;
  int32_t visit_tile[kVisits];
  alignas(16) int32_t record[routing::record_words(kMostTiles)];
  uint32_t parts_in[ExpertsPlan::kMostBuffers][4], blocks_in[ExpertsPlan::kMostBuffers];
  Tile tiles[kMostTiles];
  float limits[kMostTiles];
  int32_t experts[kMostTiles];    // the loader's
  uint8_t rows[kMostTiles];       // the loader's: of a tile
  uint8_t slots[kMostTiles * 8];  // padded row to its first slot
  int8_t slot_row[kMostTiles];    // slot to its row's first slot, or -1
};

// Dynamic shared memory, taken apart.
struct Rings {
  uint8_t* base;  // [kSlots][slot_bytes()]: stages
  uint32_t x_at;  // records of all of H; then room for stages of second matrices
  uint32_t h_at;  // [h_slots][h_tile_bytes() and slack]
  float4*
      parts;  // [buffers][parts][4 warps][32 lanes]; behind h, where products read further than there is
  __device__ Rings(uint8_t* at, const ExpertsPlan& p)
      : base(at),
        x_at(static_cast<uint32_t>(ExpertsPlan::kSlots * p.slot_bytes())),
        h_at(x_at + static_cast<uint32_t>(ExpertsPlan::with_slack(p.x_bytes()))),
        parts(reinterpret_cast<float4*>(base + h_at +
                                        p.h_slots * ExpertsPlan::with_slack(p.h_tile_bytes()))) {}
  __device__ __forceinline__ uint32_t slot_at(const ExpertsPlan& p, int n) const {
    return n < ExpertsPlan::kSlots
               ? static_cast<uint32_t>(n * p.slot_bytes())
               : x_at + static_cast<uint32_t>((n - ExpertsPlan::kSlots) * p.w2.stage_bytes());
  }
  __device__ __forceinline__ uint32_t h_slot_at(const ExpertsPlan& p, int n) const {
    return h_at + static_cast<uint32_t>(n * ExpertsPlan::with_slack(p.h_tile_bytes()));
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

enum Barrier : int { kTilesRead = 1 };  // of threads

}  // namespace octet::sm90
