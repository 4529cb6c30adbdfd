// SPDX-License-Identifier: Apache-2.0
// What the CTAs of the up kernel need to know of shape and rows, and their shared memory.
//
//   slots     stages of weights on their way or being read. The four warpgroups take a stage each; the interval between stages at memory
//             speed is longer than a stage takes to compute, so that about one slot is read and the others fill.
//   buffers   sums of units that are being finished. A warp that finishes a unit has not released its next stage, so the others are at most
//             kSlots + 3 leaves beyond that unit; unit n + buffers begins further on.
#pragma once

#include "cuda/expert_gemm.h"
#include "sm90/activation_record.h"
#include "sm90/work.h"

namespace octet::sm90 {

// The first or the second matrices, as the kernels walk through them.
struct StageShape {
  int num_stages, stage_pairs, pairs;  // pairs: of all of K
  int strips;                          // of all of a matrix
  int64_t unit_bytes;                  // 64 weight rows with all of K

  static constexpr int kRecordBytes =
      static_cast<int>(layouts::stream_record_bytes(WeightFormat::kMxfp4));
  OCTET_BOTH int pairs_in(int stage) const {
    const int left = pairs - stage * stage_pairs;
    return left < stage_pairs ? left : stage_pairs;
  }
  OCTET_BOTH int slot_bytes() const { return stage_pairs * 4 * kRecordBytes; }
  OCTET_BOTH int units() const { return (strips + 3) / 4; }
  OCTET_BOTH int strips_in(int unit) const { return strips - unit * 4 < 4 ? strips - unit * 4 : 4; }
};
inline StageShape stage_shape(const layouts::StreamMatrix& m) {
  return {static_cast<int>(m.num_stages()), static_cast<int>(m.stage_pairs),
          static_cast<int>(m.pairs), static_cast<int>(m.strips),
          m.pairs * layouts::kStreamGroupStrips * m.record_bytes()};
}

struct UpPlan {
  static constexpr int kWarpgroups = 4, kSlots = 4;
  static constexpr int kComputeThreads = kWarpgroups * 128;
  static constexpr int kThreads = kComputeThreads + 32;
  // Compiled for as many, so 72 registers: a quarter of an SM has 512 for each lane, of which 5 warps of up and 2 of down take 504.
  static constexpr int kRegisterThreads = 896;
  static constexpr int kMostBuffers = kSlots + 4;

  StageShape w13;
  Leaves leaves;
  int parts;    // sums that a unit's warpgroups leave
  int buffers;  // of `parts` sums
  int rows;     // of a record of x
  int64_t expert_bytes;

  OCTET_BOTH int x_bytes() const {
    return w13.pairs * static_cast<int>(ActivationRecord::bytes(rows));
  }
  OCTET_BOTH int x_room_bytes() const {
    return (x_bytes() + static_cast<int>(ActivationRecord::kSlackBytes) + 127) / 128 * 128;
  }
  OCTET_BOTH int parts_bytes() const { return buffers * parts * 128 * 16; }
};

inline UpPlan up_plan(const cuda::ExpertGemmArgs& args) {
  UpPlan p{};
  p.w13 = stage_shape(args.weights.sizes.w13);
  p.leaves = leaves_of(p.w13.num_stages);
  p.parts = p.leaves.count < kPartials ? p.leaves.count : kPartials;
  p.buffers = 1 + (UpPlan::kSlots + 3 + p.leaves.count - 1) / p.leaves.count;
  p.rows = ActivationRecord::padded_rows(static_cast<int>(args.tokens));
  p.expert_bytes = args.weights.sizes.expert_bytes();
  return p;
}

}  // namespace octet::sm90
