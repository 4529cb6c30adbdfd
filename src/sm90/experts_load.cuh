// SPDX-License-Identifier: Apache-2.0
// kLoader of the experts' kernel: takes tickets and brings their stages. Lane 0 alone, but for the beginning.
#pragma once

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

// All lanes: the activations in pieces, CTAs beginning with different ones, since the same lines for all CTAs come one after the other.
__device__ __forceinline__ void load_x(const ExpertsKernelArgs& a, Shared& s, const Rings& rings,
                                       int lane) {
  constexpr int kPieces = 16;
  const int bytes = a.plan.x_bytes(), piece = (bytes / kPieces + 127) / 128 * 128;
  if (lane == 0) ptx::arrive_expecting(s.x_full, static_cast<uint32_t>(bytes));
  __syncwarp();
  const int at = (lane + static_cast<int>(blockIdx.x)) % kPieces * piece;
  if (lane >= kPieces || at >= bytes) return;
  ptx::bulk_copy(rings.x + at, a.x + at, static_cast<uint32_t>(min(piece, bytes - at)), s.x_full,
                 ptx::evict_normal());
}

// Lane 0's place in the ring and among the warpgroups.
struct Loader {
  const ExpertsKernelArgs& a;
  Shared& s;
  const Rings& rings;
  uint64_t policy = ptx::evict_first();
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

  // Stage `d` for warpgroup `group`: `bytes` from `from`, none for the word that there is no more.
  __device__ __forceinline__ void issue(int group, Stage d, const uint8_t* from, uint32_t bytes) {
    group %= ExpertsPlan::kWarpgroups;
    const uint32_t turn = (turns >> (8 * group)) & 0xFF;
    uint64_t& full = s.full[group][turn];
    if (!is_warm_up) ptx::wait(s.empty[slot], parity);
    d.slot = static_cast<uint8_t>(slot);
    s.stage[group][turn] = d;
    if (is_warm_up) return;
    if (bytes != 0) {
      ptx::arrive_expecting(full, bytes);
      ptx::bulk_copy(rings.stages + slot * a.plan.slot_bytes(), from, bytes, full, policy);
    } else {
      ptx::arrive(full);
    }
    turns += (turn + 1 < ExpertsPlan::kSlots ? 1U : 0U - turn) << (8 * group);
    if (++slot < ExpertsPlan::kSlots) return;
    slot = 0;
    parity ^= 1;
  }

  // Until all stages but the last `most` have been read. A CTA that has nothing to do yet must not take what others could begin with.
  __device__ __forceinline__ void wait_for_all_but(int most) {
    const int ahead = slot + ExpertsPlan::kSlots - most;
    ptx::wait(s.empty[ahead % ExpertsPlan::kSlots],
              ahead < ExpertsPlan::kSlots ? parity : parity ^ 1);
  }

  __device__ __forceinline__ int take() const {
    return is_warm_up ? 0 : static_cast<int>(atomicAdd(a.tickets, 1U));
  }

  // Leaves go to the warpgroups in turn. A ticket is asked for before the last copy, so that the answer comes as that one goes.
  __device__ __forceinline__ void bring_up(const Work& w, int& next) {
    const StageShape& m = a.plan.w13;
    const uint8_t* from = a.weights + s.experts[w.tile] * a.expert_bytes + w.first * m.unit_bytes;
    for (int stage = 0; stage < m.num_stages; ++stage) {
      if (stage == m.num_stages - 1) next = take();
      const int leaf = stage / m.leaves.stages_a_leaf;
      const bool ends_leaf = (stage + 1) % m.leaves.stages_a_leaf == 0 || stage + 1 == m.num_stages;
      const auto bytes = static_cast<uint32_t>(m.pairs_in(stage) * 4 * StageShape::kRecordBytes);
      issue(next_group + leaf,
            {.kind = Work::Kind::kUp,
             .slot = 0,
             .ends_leaf = ends_leaf,
             .ends_share = ends_leaf && leaf + ExpertsPlan::kWarpgroups >= m.leaves.count,
             .leaf = static_cast<uint8_t>(leaf),
             .buffer = static_cast<uint8_t>(buffer),
             .weight = 0,
             .index = static_cast<uint16_t>(stage),
             .tile = w.tile,
             .unit = w.first,
             .visit = 0},
            from, bytes);
      from += bytes;
    }
    next_group += m.leaves.count;
    buffer = buffer + 1 == a.plan.buffers ? 0 : buffer + 1;
  }

  // Units of a chunk go to the warpgroups in turn, each with all of its stages.
  __device__ __forceinline__ void bring_down(const Work& w, int& next) {
    next = take();
    const StageShape& m = a.plan.w2;
    announce(w.tile);
    const uint8_t* matrix = a.weights + s.experts[w.tile] * a.expert_bytes + a.w2_offset;
    for (int stage = 0; stage < m.num_stages; ++stage) {
      for (int i = 0; i < w.count; ++i) {
        const int unit = w.first + i, strips = m.strips_in(unit);
        issue(next_group + i,
              {.kind = Work::Kind::kDown,
               .slot = 0,
               .ends_leaf = (stage + 1) % m.leaves.stages_a_leaf == 0 || stage + 1 == m.num_stages,
               .ends_share = stage + 1 == m.num_stages,
               .leaf = static_cast<uint8_t>(stage / m.leaves.stages_a_leaf),
               .buffer = 0,
               .weight = static_cast<uint8_t>(Shared::kHReaders / w.count),
               .index = static_cast<uint16_t>(stage),
               .tile = w.tile,
               .unit = unit,
               .visit = visit},
              matrix + unit * m.unit_bytes +
                  stage * (strips * m.stage_pairs * StageShape::kRecordBytes),
              static_cast<uint32_t>(strips * m.pairs_in(stage) * StageShape::kRecordBytes));
      }
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
      issue(group,
            {.kind = Work::Kind::kNone,
             .slot = 0,
             .ends_leaf = false,
             .ends_share = false,
             .leaf = 0,
             .buffer = 0,
             .weight = 0,
             .index = 0,
             .tile = 0,
             .unit = 0,
             .visit = 0},
            nullptr, 0);
  }
};

// All lanes. Each kind of work once for nothing before the wait, as in multiply().
__device__ __forceinline__ void load(const ExpertsKernelArgs& a, Shared& s, const Rings& rings,
                                     int lane) {
  Loader loader{a, s, rings};
  Work w{Work::Kind::kUp, 0, 0, 1};
  int next = 0, tiles = 0, chunk = 1, most = 0;
  const auto grid = static_cast<int>(gridDim.x);
#pragma unroll 1
  for (int step = -3;; ++step) {
    if (step == -1) {
      cuda::wait_for_previous();
      cuda::let_next_begin();
      loader.begin();
      next = lane == 0 ? loader.take() : 0;
      tiles = num_tiles(a.record);
      const int expert[2] = {record_word(a.record, 4 + min(lane, a.most_tiles - 1)),
                             record_word(a.record, 4 + min(lane + cuda::kWarp, a.most_tiles - 1))};
      load_x(a, s, rings, lane);
      s.experts[lane] = expert[0];
      s.experts[lane + cuda::kWarp] = expert[1];
      __syncwarp();
      ptx::arrive_threads(kBarriersReady, ExpertsPlan::kThreads);
      const int units = tiles * a.plan.w2.units();
      chunk = a.plan.chunk_of(units, grid);
      most = max(1, min((units + grid - 1) / grid, ExpertsPlan::kSlots));
    }
    if (lane != 0) {
      if (step < -1) continue;
      return;
    }
    if (step >= -1) w = work_of(next, tiles, a.plan.w13.units(), a.plan.w2.units(), chunk);
    if (w.kind == Work::Kind::kNone) break;
    if (w.kind == Work::Kind::kUp) {
      loader.bring_up(w, next);
    } else {
      if (!loader.is_warm_up && most < ExpertsPlan::kSlots) loader.wait_for_all_but(most);
      loader.bring_down(w, next);
    }
    if (step == -3) w.kind = Work::Kind::kDown;
  }
  loader.end();
}

}  // namespace octet::sm90
