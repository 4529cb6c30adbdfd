// SPDX-License-Identifier: Apache-2.0
// What CTAs of the experts' kernel need to know of shape and rows, and how they divide their shared memory.
//
//   slots     stages of weights on their way or being read; before them, the front's
//   buffers   sums of units that are being finished. A warp that finishes a unit has not released its next stage, so the others are at most
//             num_slots() + 3 leaves beyond that unit; unit n + buffers begins further on.
//   h slots   h of the tiles whose second matrices are being read or come next
#pragma once

#include "cuda/expert_gemm.h"
#include "sm90/experts_traits.h"
#include "sm90/work.h"

namespace octet::sm90 {

// Shared memory that a CTA may have.
constexpr int kMostSharedBytes = 232448;

// The first or the second matrices, as the kernel walks through them.
template <class Traits>
struct StageShape {
  int num_stages, stage_pairs, pairs;  // pairs: of all of K
  int strips;                          // of all of a matrix
  int64_t unit_bytes;                  // 64 weight rows with all of K
  Leaves leaves;

  OCTET_BOTH int pairs_in(int stage) const {
    const int left = pairs - stage * stage_pairs;
    return left < stage_pairs ? left : stage_pairs;
  }
  OCTET_BOTH int stage_bytes() const { return stage_pairs * 4 * Traits::kWeightRecordBytes; }
  OCTET_BOTH int units() const { return (strips + 3) / 4; }
  OCTET_BOTH int strips_in(int unit) const { return strips - unit * 4 < 4 ? strips - unit * 4 : 4; }
};
template <class Traits>
StageShape<Traits> stage_shape(const layouts::StreamMatrix& m) {
  return {static_cast<int>(m.num_stages()),
          static_cast<int>(m.stage_pairs),
          static_cast<int>(m.pairs),
          static_cast<int>(m.strips),
          m.pairs * layouts::kStreamGroupStrips * m.record_bytes(),
          leaves_of(static_cast<int>(m.num_stages()))};
}

// Pieces of x that a warp quantises, eight elements a lane.
OCTET_BOTH constexpr int x_pieces(int rows, int pairs) {
  return (rows * pairs * ActivationRecord::kWidth + 255) / 256;
}

struct ExpertsRoles {
  static constexpr int kWarpgroups = 4, kMostSlots = 6;
  static constexpr int kComputeWarps = kWarpgroups * 4, kAuxWarps = 2;
  static constexpr int kSchedulerWarp = kComputeWarps, kLoaderWarp = kSchedulerWarp + 1;
  static constexpr int kComputeThreads = kComputeWarps * 32;
  static constexpr int kThreads = kComputeThreads + 2 * 32 + kAuxWarps * 32;
  static constexpr int kMostBuffers = kMostSlots + 4;
  static constexpr int kMostHSlots = 6;
  // Units of w2 that are handed out at a time: one for each warpgroup, since a ticket costs its CTA as much time as two stages.
  static constexpr int kChunk = kWarpgroups;
  // With so few units of w2 for each CTA, a CTA takes no more before it has read those it has.
  static constexpr int kFewUnits = 8;
  // Of stages' room; the front (experts_front.cuh) is done with its part when the first of them comes.
  static constexpr int kFrontBytes = 38400;
  static constexpr int kLeastPartsBytes = 2 * 128 * 16;  // two buffers at least
};

template <class Traits>
struct ExpertsPlan {
  using Record = typename Traits::Record;

  StageShape<Traits> w13, w2;
  int parts;    // sums that a unit's warpgroups leave
  int buffers;  // of `parts` sums
  int rows;     // of a record of x: T padded
  int h_slots;  // room for h_tile_bytes() each; 6, 4, 2 or 1: a slot is always the same aux warp's
  int slots;    // of the ring

  OCTET_BOTH int num_slots() const {
    constexpr int kMost = ExpertsRoles::kMostSlots;
    return Traits::kFewestSlots == kMost ? kMost : slots;
  }
  OCTET_BOTH int slot_bytes() const {
    return w13.stage_bytes() > w2.stage_bytes() ? w13.stage_bytes() : w2.stage_bytes();
  }
  OCTET_BOTH int x_bytes() const { return w13.pairs * static_cast<int>(Record::bytes(rows)); }
  OCTET_BOTH int h_tile_bytes() const { return w2.pairs * static_cast<int>(Record::bytes(rows)); }
  // With what products read behind the last record.
  OCTET_BOTH int with_slack(int bytes) const {
    return (bytes + Record::slack_bytes(rows) + 127) / 128 * 128;
  }
  OCTET_BOTH int ring_bytes() const {
    constexpr int kFront = ExpertsRoles::kFrontBytes;
    return num_slots() * slot_bytes() < kFront ? kFront : num_slots() * slot_bytes();
  }
  OCTET_BOTH int parts_bytes() const { return buffers * parts * 128 * 16; }
  OCTET_BOTH int dynamic_bytes() const {
    return ring_bytes() + with_slack(x_bytes()) + parts_bytes() +
           h_slots * with_slack(h_tile_bytes());
  }
};

// The longest ring beside which h has two slots at least, or, where none does, beside which it has one.
template <class Traits>
ExpertsPlan<Traits> experts_plan(const cuda::ExpertGemmArgs& args, int most_bytes) {
  using Roles = ExpertsRoles;
  ExpertsPlan<Traits> p{}, with_one{};
  p.w13 = stage_shape<Traits>(args.weights.sizes.w13);
  p.w2 = stage_shape<Traits>(args.weights.sizes.w2);
  p.parts = p.w13.leaves.count < kPartials ? p.w13.leaves.count : kPartials;
  p.rows = Traits::Record::padded_rows(static_cast<int>(args.tokens));
  for (p.slots = Roles::kMostSlots; p.slots >= Traits::kFewestSlots; --p.slots) {
    p.buffers = 1 + (p.slots + 3 + p.w13.leaves.count - 1) / p.w13.leaves.count;
    p.h_slots = Roles::kMostHSlots;
    while (p.h_slots > 1 && p.dynamic_bytes() > most_bytes)
      p.h_slots -= p.h_slots > Roles::kAuxWarps ? Roles::kAuxWarps : 1;
    if (p.h_slots > 1) return p;
    if (with_one.slots == 0 || with_one.dynamic_bytes() > most_bytes) with_one = p;
  }
  return with_one;
}

}  // namespace octet::sm90
