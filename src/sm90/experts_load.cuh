// SPDX-License-Identifier: Apache-2.0
// kLoader of the experts' kernel: takes tickets and brings their stages. Lane 0 alone, but for the beginning.
#pragma once

#include "cuda/async_copy.cuh"
#include "cuda/launch.h"
#include "sm90/experts_shared.cuh"
#include "sm90/ptx/bulk_copy.cuh"
#include "sm90/ptx/warp_exchange.cuh"

namespace octet::sm90 {

// All lanes, before the others may touch a barrier.
__device__ __forceinline__ void init_shared(Shared& s, int lane) {
  for (int i = lane; i < ExpertsPlan::kWarpgroups * ExpertsPlan::kSlots; i += cuda::kWarp)
    ptx::init_barrier((&s.full[0][0])[i], 1);
  if (lane < ExpertsPlan::kSlots) ptx::init_barrier(s.empty[lane], 4);
  if (lane < Shared::kVisits) {
    ptx::init_barrier(s.visit[lane], 1);
    ptx::init_barrier(s.h_full[lane], 1);
  }
  if (lane < ExpertsPlan::kMostHSlots) ptx::init_barrier(s.h_empty[lane], 4 * Shared::kHReaders);
  if (lane == 0) {
    ptx::init_barrier(s.record_full, 1);
    ptx::init_barrier(s.x_full, 1);
    ptx::init_barrier(s.rows_done, ExpertsPlan::kComputeWarps);
  }
  for (int i = lane; i < ExpertsPlan::kMostBuffers; i += cuda::kWarp) {
    s.blocks_in[i] = 0;
    for (uint32_t& parts : s.parts_in[i]) parts = 0;
  }
  ptx::fence_barrier_init();
  __syncwarp();
}

// All lanes: the record, and the activations in pieces, CTAs beginning with different ones, since the same lines for all CTAs come one
// after the other. For the same reason copies and not loads: those of 16 warps of all CTAs took thousands of cycles.
__device__ __forceinline__ void load_record_and_x(const ExpertsKernelArgs& a, Shared& s,
                                                  const Rings& rings, int lane) {
  constexpr int kPieces = 16;
  const uint64_t policy = ptx::evict_normal();
  const int bytes = a.plan.x_bytes(), piece = (bytes / kPieces + 127) / 128 * 128;
  if (lane == 0) {
    const auto record_bytes = static_cast<uint32_t>(routing::record_words(a.most_tiles) * 4);
    ptx::arrive_expecting(s.record_full, record_bytes);
    ptx::bulk_copy(s.record, a.record, record_bytes, s.record_full, policy);
    ptx::arrive_expecting(s.x_full, static_cast<uint32_t>(bytes));
  }
  __syncwarp();
  const int at = (lane + static_cast<int>(blockIdx.x)) % kPieces * piece;
  if (lane >= kPieces || at >= bytes) return;
  ptx::bulk_copy(rings.x + at, a.x + at, static_cast<uint32_t>(min(piece, bytes - at)), s.x_full,
                 policy);
}

// Lane 0's place in the ring and among the warpgroups.
struct Loader {
  const ExpertsKernelArgs& a;
  Shared& s;
  const Rings& rings;
  uint64_t policy = cuda::evict_first_policy();
  int slot = 0;
  uint32_t parity = 1;  // at first every slot is free
  uint32_t turns = 0;   // four bytes: the next barrier of each warpgroup
  int next_group = 0, buffer = 0, visit = 0;
  bool is_warm_up = true;

  // Anew, and in earnest.
  __device__ __forceinline__ void begin() {
    turns = 0;
    slot = next_group = buffer = visit = 0;
    parity = 1;
    is_warm_up = false;
  }

  // Stage `d` for warpgroup `group`, taken modulo their number: `bytes` from `from`, none for the word that there is no more.
  __device__ __forceinline__ void issue(int group, Stage d, const uint8_t* from, uint32_t bytes) {
    group %= ExpertsPlan::kWarpgroups;
    const uint32_t turn = (turns >> (8 * group)) & 0xFF;
    uint64_t& full = s.full[group][turn];
    if (!is_warm_up) ptx::wait(s.empty[slot], parity);
    d.slot = static_cast<uint8_t>(slot);
    s.stage[group][turn] = d;
    if (!is_warm_up) {
      if (bytes != 0) {
        ptx::arrive_expecting(full, bytes);
        ptx::bulk_copy(rings.stages + slot * a.plan.slot_bytes(), from, bytes, full, policy);
      } else {
        ptx::arrive(full);
      }
    }
    turns += (turn + 1 < ExpertsPlan::kSlots ? 1U : 0U - turn) << (8 * group);
    const bool wraps = slot + 1 == ExpertsPlan::kSlots;
    slot = wraps ? 0 : slot + 1;
    parity ^= wraps ? 1U : 0U;
  }

  // Until all stages but the last `most` have been read.
  __device__ __forceinline__ void wait_for_all_but(int most) {
    const int ahead = slot + ExpertsPlan::kSlots - 1 - most;
    const bool wraps = ahead >= ExpertsPlan::kSlots;
    ptx::wait(s.empty[wraps ? ahead - ExpertsPlan::kSlots : ahead], wraps ? parity ^ 1 : parity);
  }

  __device__ __forceinline__ int take() const {
    return is_warm_up ? 0 : static_cast<int>(atomicAdd(a.tickets, 1U));
  }

  // Leaves go to the warpgroups in turn. The next ticket is asked for before the last copy: it comes as that goes, and nobody holds two
  // while others have none.
  __device__ __forceinline__ void bring_up(const Work& w, int& next) {
    const StageShape& m = a.plan.w13;
    const uint8_t* from = a.weights + s.experts[w.tile] * a.expert_bytes + w.first * m.unit_bytes;
    Stage d{.kind = Work::Kind::kUp,
            .flags = 0,
            .slot = 0,
            .leaf = 0,
            .buffer = static_cast<uint8_t>(buffer),
            .weight = 0,
            .index = 0,
            .tile = static_cast<uint16_t>(w.tile),
            .unit = static_cast<uint16_t>(w.first),
            .visit = 0};
    for (int stage = 0, left = m.leaves.stages_a_leaf, pairs = m.pairs; stage < m.num_stages;
         ++stage) {
      const bool is_last = stage + 1 == m.num_stages, ends_leaf = --left == 0 || is_last;
      if (is_last) next = take();
      const bool ends_share = ends_leaf && d.leaf + ExpertsPlan::kWarpgroups >= m.leaves.count;
      d.flags = static_cast<uint8_t>((ends_leaf ? Stage::kEndsLeaf : 0) |
                                     (ends_share ? Stage::kEndsShare : 0));
      d.index = static_cast<uint16_t>(stage);
      const auto bytes =
          static_cast<uint32_t>(min(pairs, m.stage_pairs) * 4 * StageShape::kRecordBytes);
      issue(next_group, d, from, bytes);
      from += bytes;
      pairs -= m.stage_pairs;
      if (!ends_leaf) continue;
      left = m.leaves.stages_a_leaf;
      ++d.leaf;
      ++next_group;
    }
    buffer = buffer + 1 == a.plan.buffers ? 0 : buffer + 1;
  }

  // Units of a chunk go to the warpgroups in turn, each with all of its stages.
  __device__ __forceinline__ void bring_down(const Work& w) {
    const StageShape& m = a.plan.w2;
    announce(w.tile);
    const uint8_t* from =
        a.weights + s.experts[w.tile] * a.expert_bytes + a.w2_offset + w.first * m.unit_bytes;
    Stage d{.kind = Work::Kind::kDown,
            .flags = 0,
            .slot = 0,
            .leaf = 0,
            .buffer = 0,
            .weight = static_cast<uint8_t>(w.count == 1   ? Shared::kHReaders
                                           : w.count == 2 ? Shared::kHReaders / 2
                                           : w.count == 3 ? Shared::kHReaders / 3
                                                          : Shared::kHReaders / 4),
            .index = 0,
            .tile = static_cast<uint16_t>(w.tile),
            .unit = 0,
            .visit = visit};
    for (int stage = 0, left = m.leaves.stages_a_leaf, pairs = m.pairs; stage < m.num_stages;
         ++stage) {
      const bool is_last = stage + 1 == m.num_stages, ends_leaf = --left == 0 || is_last;
      d.flags = static_cast<uint8_t>((ends_leaf ? Stage::kEndsLeaf : 0) |
                                     (is_last ? Stage::kEndsShare : 0));
      d.index = static_cast<uint16_t>(stage);
      const uint8_t* at = from;
      for (int i = 0; i < w.count; ++i) {
        const int strips = m.strips_in(w.first + i), record = strips * StageShape::kRecordBytes;
        d.unit = static_cast<uint16_t>(w.first + i);
        issue(next_group + i, d, at + stage * (record * m.stage_pairs),
              static_cast<uint32_t>(record * min(pairs, m.stage_pairs)));
        at += m.unit_bytes;
      }
      pairs -= m.stage_pairs;
      if (!ends_leaf) continue;
      left = m.leaves.stages_a_leaf;
      ++d.leaf;
    }
    next_group += w.count;
    ++visit;
  }
  __device__ __forceinline__ void announce(int tile) {
    if (is_warm_up) return;
    s.visit_tile[visit % Shared::kVisits] = tile;
    ptx::arrive(s.visit[visit % Shared::kVisits]);
  }
  __device__ __forceinline__ void end() {
    for (int i = 0; i < ExpertsPlan::kAuxWarps; ++i, ++visit) announce(-1);
    for (int group = 0; group < ExpertsPlan::kWarpgroups; ++group)
      issue(group, Stage{.kind = Work::Kind::kNone}, nullptr, 0);
  }
};

// All lanes. Each kind of work once for nothing before the wait: code that a launch meets for the first time comes slowly.
__device__ __forceinline__ void load(const ExpertsKernelArgs& a, Shared& s, const Rings& rings,
                                     int lane) {
  Loader loader{a, s, rings};
  Work w{Work::Kind::kUp, 0, 0, 1};
  int next = 0;
  WorkOrder order(0, 1, 1, 1);
  int units_a_cta = 0;
#pragma unroll 1
  for (int step = -3;; ++step) {
    if (step == -1) {
      cuda::wait_for_previous();
      cuda::let_next_begin();
      loader.begin();
      next = lane == 0 ? loader.take() : 0;
      const int tiles = __ldcg(a.record + 1);
      const int expert[2] = {__ldcg(a.record + 4 + min(lane, a.most_tiles - 1)),
                             __ldcg(a.record + 4 + min(lane + cuda::kWarp, a.most_tiles - 1))};
      load_record_and_x(a, s, rings, lane);
      s.experts[lane] = expert[0];
      s.experts[lane + cuda::kWarp] = expert[1];
      __syncwarp();
      const auto grid = static_cast<int>(gridDim.x);
      units_a_cta = (tiles * a.plan.w2.units() + grid - 1) / grid;
      order = WorkOrder(tiles, a.plan.w13.units(), a.plan.w2.units(), ExpertsPlan::kChunk);
    }
    if (lane != 0) {
      if (step < -1) continue;
      return;
    }
    if (step >= -1) w = order[next];
    if (w.kind == Work::Kind::kNone) break;
    if (w.kind == Work::Kind::kUp) {
      loader.bring_up(w, next);
    } else {
      // Few for each CTA: who waits for h must not take what others could begin with.
      const bool are_few = units_a_cta <= ExpertsPlan::kFewUnits;
      if (!are_few) next = loader.take();
      loader.bring_down(w);
      if (are_few) {
        if (!loader.is_warm_up) loader.wait_for_all_but(max(0, units_a_cta - ExpertsPlan::kChunk));
        next = loader.take();
      }
    }
    if (step == -3) w.kind = Work::Kind::kDown;
  }
  loader.end();
}

}  // namespace octet::sm90
