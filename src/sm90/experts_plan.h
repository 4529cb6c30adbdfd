// SPDX-License-Identifier: Apache-2.0
// What CTAs of the experts' kernel need to know of shape and rows, and how they divide their shared memory.
//
//   slots     stages of weights on their way or being read; before them, the front's
//   buffers   sums of units that are being finished. A warp that finishes a unit has not released its next stage, so the others are at most
//             kSlots + 3 leaves beyond that unit; unit n + buffers begins further on.
//   h slots   h of the tiles whose second matrices are being read or come next
#pragma once

#include "cuda/expert_gemm.h"
#include "sm90/activation_record.h"
#include "sm90/work.h"

namespace octet::sm90 {

// Shared memory that a CTA may have.
constexpr int kMostSharedBytes = 232448;

constexpr int kMostTokens = 8, kMostTopK = 8, kMostCtas = 1024;
constexpr int kMostTiles = kMostTokens * kMostTopK;

// The first or the second matrices, as the kernel walks through them.
struct StageShape {
  int num_stages, stage_pairs, pairs;  // pairs: of all of K
  int strips;                          // of all of a matrix
  int64_t unit_bytes;                  // 64 weight rows with all of K
  Leaves leaves;

  static constexpr int kRecordBytes =
      static_cast<int>(layouts::stream_record_bytes(WeightFormat::kMxfp4));
  OCTET_BOTH int pairs_in(int stage) const {
    const int left = pairs - stage * stage_pairs;
    return left < stage_pairs ? left : stage_pairs;
  }
  OCTET_BOTH int stage_bytes() const { return stage_pairs * 4 * kRecordBytes; }
  OCTET_BOTH int units() const { return (strips + 3) / 4; }
  OCTET_BOTH int strips_in(int unit) const { return strips - unit * 4 < 4 ? strips - unit * 4 : 4; }
};
inline StageShape stage_shape(const layouts::StreamMatrix& m) {
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

struct ExpertsPlan {
  static constexpr int kWarpgroups = 4, kSlots = 6;
  static constexpr int kComputeWarps = kWarpgroups * 4, kAuxWarps = 2;
  static constexpr int kSchedulerWarp = kComputeWarps, kLoaderWarp = kSchedulerWarp + 1;
  static constexpr int kComputeThreads = kComputeWarps * 32;
  static constexpr int kThreads = kComputeThreads + 2 * 32 + kAuxWarps * 32;
  static constexpr int kMostBuffers = kSlots + 4;
  static constexpr int kMostHSlots = 6;
  // Units of w2 that are handed out at a time: one for each warpgroup, since a ticket costs its CTA as much time as two stages.
  static constexpr int kChunk = kWarpgroups;
  // With so few units of w2 for each CTA, a CTA takes no more before it has read those it has.
  static constexpr int kFewUnits = 8;

  StageShape w13, w2;
  int parts;    // sums that a unit's warpgroups leave
  int buffers;  // of `parts` sums
  int rows;     // of a record of x: T padded
  int h_slots;  // room for h_tile_bytes() each; 6, 4, 2 or 1: a slot is always the same aux warp's

  OCTET_BOTH int slot_bytes() const {
    return w13.stage_bytes() > w2.stage_bytes() ? w13.stage_bytes() : w2.stage_bytes();
  }
  OCTET_BOTH int x_bytes() const {
    return w13.pairs * static_cast<int>(ActivationRecord::bytes(rows));
  }
  OCTET_BOTH int h_tile_bytes() const {
    return w2.pairs * static_cast<int>(ActivationRecord::bytes(rows));
  }
  // With what products read behind the last record.
  OCTET_BOTH static int with_slack(int bytes) {
    return (bytes + static_cast<int>(ActivationRecord::kSlackBytes) + 127) / 128 * 128;
  }
  // Stages; the front (experts_front.cuh) is done with its part when the first of them comes.
  static constexpr int kFrontBytes = 38400;
  OCTET_BOTH int ring_bytes() const {
    return kSlots * slot_bytes() < kFrontBytes ? kFrontBytes : kSlots * slot_bytes();
  }
  static constexpr int kLeastPartsBytes = 2 * 128 * 16;  // two buffers at least
  OCTET_BOTH int parts_bytes() const { return buffers * parts * 128 * 16; }
  OCTET_BOTH int dynamic_bytes() const {
    return ring_bytes() + with_slack(x_bytes()) + parts_bytes() +
           h_slots * with_slack(h_tile_bytes());
  }
};

inline ExpertsPlan experts_plan(const cuda::ExpertGemmArgs& args, int most_bytes) {
  ExpertsPlan p{};
  p.w13 = stage_shape(args.weights.sizes.w13);
  p.w2 = stage_shape(args.weights.sizes.w2);
  p.parts = p.w13.leaves.count < kPartials ? p.w13.leaves.count : kPartials;
  p.buffers = 1 + (ExpertsPlan::kSlots + 3 + p.w13.leaves.count - 1) / p.w13.leaves.count;
  p.rows = ActivationRecord::padded_rows(static_cast<int>(args.tokens));
  p.h_slots = ExpertsPlan::kMostHSlots;
  while (p.h_slots > 1 && p.dynamic_bytes() > most_bytes)
    p.h_slots -= p.h_slots > ExpertsPlan::kAuxWarps ? ExpertsPlan::kAuxWarps : 1;
  return p;
}

}  // namespace octet::sm90
