// SPDX-License-Identifier: Apache-2.0
// kScheduler of the experts' kernel: takes tickets, and works out for each of their stages what kLoader copies where and what a warpgroup does
// with it. Beside busy warps an instruction takes ten cycles, so the lanes of a warp work out a stage each, and another warp copies.
#pragma once

#include "cuda/launch.h"
#include "sm90/experts_shared.cuh"
#include "sm90/ptx/mbarrier.cuh"

namespace octet::sm90 {

// kScheduler's place in the ring and among the warpgroups. All lanes know it, so that the stages of a unit or a chunk are worked out side by
// side, a lane each.
struct Scheduler {
  const ExpertsKernelArgs& a;
  Shared& s;
  const Rings& rings;
  int lane;
  // The ring: slots first, first + 1 ... kSlots - 1, 0 ... first - 1, kSlots ... slots - 1.
  int first = 0, slots = ExpertsPlan::kSlots, at = 0;
  uint32_t parities = ~0U;  // of the slots; at first every one is free
  int turn = 0;             // of lane g: the next barrier of warpgroup g
  int next_group = 0, buffer = 0;
  Turn<Shared::kVisits> visit, last_visit;
  int h_slot = 0;
  uint32_t taken =
      0;  // parity of the phase that ends when the copies scheduled last are nearly done
  bool is_pending = false;  // there are such
  bool is_warm_up = true;

  // Anew, and in earnest.
  __device__ __forceinline__ void begin() {
    turn = first = at = next_group = buffer = h_slot = 0;
    visit = {};
    slots = ExpertsPlan::kSlots;
    parities = ~0U;
    is_warm_up = false;
  }
  // From here on second matrices alone: the slots that are added come behind those of all stages before, so who finds them free knows
  // that nobody reads activations any more.
  __device__ __forceinline__ void begin_down() {
    if (is_warm_up || slots == a.plan.down_slots()) return;
    ptx::wait(s.x_full, 0);  // who has no first matrices does not wait for them elsewhere
    slots = a.plan.down_slots();
    first = at;
    at = 0;
  }
  __device__ __forceinline__ int slot_at(int place) const {
    const int slot = first + place;
    return place >= ExpertsPlan::kSlots  ? place
           : slot >= ExpertsPlan::kSlots ? slot - ExpertsPlan::kSlots
                                         : slot;
  }

  // Until the loader has nearly come to the end of what was scheduled last.
  __device__ __forceinline__ void wait_for_loader() {
    if (!is_pending) return;
    ptx::wait(s.taken, taken);
    taken ^= 1;
    is_pending = false;
  }

  // Stages 0 ... count - 1: lane i has the i-th, for a warpgroup (taken modulo their number), of `bytes` from `from`.
  __device__ __forceinline__ void schedule_stages(int count, int group, Stage d, StageEnd end,
                                                  const uint8_t* from, uint32_t bytes) {
    constexpr int kGroups = ExpertsPlan::kWarpgroups;
    group %= kGroups;
    const uint32_t all = (1U << count) - 1;
    const uint32_t odd = __ballot_sync(cuda::kWholeWarp, (group & 1) != 0),
                   high = __ballot_sync(cuda::kWholeWarp, (group & 2) != 0);
    static_assert(kGroups == 4);
    const auto lanes_of = [&](int g) {
      return all & ((g & 1) != 0 ? odd : ~odd) & ((g & 2) != 0 ? high : ~high);
    };
    const int before = __popc(lanes_of(group) & ((1U << lane) - 1));
    const int own_turn = (__shfl_sync(cuda::kWholeWarp, turn, group) + before) % Shared::kTurns;
    turn = (turn + __popc(lanes_of(lane % kGroups))) % Shared::kTurns;
    int own_at = at + lane % Shared::kTogether;
    own_at -= own_at >= slots ? slots : 0;
    own_at -= own_at >= slots ? slots : 0;
    const int own_slot = slot_at(own_at);
    const uint32_t parity = (parities >> own_slot & 1) ^ (lane >= slots ? 1U : 0U);
    parities ^= __reduce_xor_sync(cuda::kWholeWarp, lane < count ? 1U << own_slot : 0U);
    at += count;
    at -= at >= slots ? slots : 0;
    at -= at >= slots ? slots : 0;
    end.slot = static_cast<uint8_t>(own_slot);
    d.weights = rings.slot_at(a.plan, own_slot);
    wait_for_loader();
    if (lane < count) {
      s.stage[group][own_turn] = d;
      s.stage_end[group][own_turn] = end;
      s.copies[lane] = {from,
                        bytes,
                        static_cast<uint8_t>(group),
                        static_cast<uint8_t>(own_turn),
                        static_cast<uint8_t>(own_slot),
                        static_cast<uint8_t>(parity)};
    }
    if (lane == 0) s.num_copies = count;
    __syncwarp();
    if (is_warm_up) return;
    if (lane == 0) ptx::arrive(s.scheduled);
    is_pending = true;
  }

  // Lane 0's: the ticket.
  __device__ __forceinline__ int take() const {
    return is_warm_up || lane != 0 ? 0 : static_cast<int>(atomicAdd(a.tickets, 1U));
  }

  // Leaves go to the warpgroups in turn.
  __device__ __forceinline__ void bring_up(const Work& w) {
    const StageShape& m = a.plan.w13;
    const uint8_t* const from =
        a.weights + s.experts[w.tile] * a.expert_bytes + w.first * m.unit_bytes;
    const int a_leaf = m.leaves.stages_a_leaf;
#pragma unroll 1
    for (int from_stage = 0; from_stage < m.num_stages; from_stage += Shared::kTogether) {
      const int index = from_stage + lane, leaf = a_leaf == 1 ? index : index / a_leaf;
      const bool ends_leaf = index + 1 == m.num_stages || index + 1 == (leaf + 1) * a_leaf;
      const bool ends_share = ends_leaf && leaf + ExpertsPlan::kWarpgroups >= m.leaves.count;
      const int count = min(m.num_stages - from_stage, Shared::kTogether);
      const int pairs = m.pairs_in(index);
      Stage d{};
      d.activations = rings.x_at + records_at(index, m, a.plan.rows);
      d.pairs = static_cast<uint8_t>(pairs);
      d.padded_rows = static_cast<uint8_t>(a.plan.rows);
      d.kind = Work::Kind::kUp;
      StageEnd end{};
      end.tile = static_cast<uint16_t>(w.tile);
      end.unit = static_cast<uint16_t>(w.first);
      end.flags = static_cast<uint8_t>((ends_leaf ? StageEnd::kEndsLeaf : 0) |
                                       (ends_share ? StageEnd::kEndsShare : 0));
      end.leaf = static_cast<uint8_t>(leaf);
      end.buffer = static_cast<uint8_t>(buffer);
      schedule_stages(count, next_group + leaf, d, end, from + index * m.stage_bytes(),
                      static_cast<uint32_t>(pairs * 4 * StageShape::kRecordBytes));
    }
    next_group += m.leaves.count;
    buffer = buffer + 1 == a.plan.buffers ? 0 : buffer + 1;
  }

  // Units of a chunk go to the warpgroups in turn, each with all of its stages.
  __device__ __forceinline__ void bring_down(const Work& w) {
    const StageShape& m = a.plan.w2;
    announce(w.tile);
    begin_down();
    const int rows = s.rows[w.tile], padded_rows = ActivationRecord::padded_rows(rows);
    const uint8_t* const from =
        a.weights + s.experts[w.tile] * a.expert_bytes + a.w2_offset + w.first * m.unit_bytes;
    const int a_leaf = m.leaves.stages_a_leaf, all = m.num_stages * w.count,
              most = Shared::kTogether / w.count * w.count;
#pragma unroll 1
    for (int done = 0; done < all; done += most) {
      const int own = done + lane, index = m.num_stages == 1 ? 0 : own / w.count,
                unit = own - index * w.count, leaf = a_leaf == 1 ? index : index / a_leaf;
      const bool is_last = index + 1 == m.num_stages;
      const int pairs = m.pairs_in(index),
                record = m.strips_in(w.first + unit) * StageShape::kRecordBytes;
      Stage d{};
      d.activations = rings.h_slot_at(a.plan, h_slot) + records_at(index, m, padded_rows);
      d.pairs = static_cast<uint8_t>(pairs);
      d.padded_rows = static_cast<uint8_t>(padded_rows);
      d.kind = Work::Kind::kDown;
      d.h = static_cast<uint8_t>(visit.slot);
      d.h_parity = static_cast<uint8_t>(visit.parity);
      StageEnd end{};
      end.tile = static_cast<uint16_t>(w.tile);
      end.unit = static_cast<uint16_t>(w.first + unit);
      end.flags = static_cast<uint8_t>(
          (is_last || index + 1 == (leaf + 1) * a_leaf ? StageEnd::kEndsLeaf : 0) |
          (is_last ? StageEnd::kEndsShare : 0));
      end.leaf = static_cast<uint8_t>(leaf);
      end.rows = static_cast<uint8_t>(rows);
      end.h_slot = static_cast<uint8_t>(h_slot);
      end.weight = static_cast<uint8_t>(w.count == 1   ? Shared::kHReaders
                                        : w.count == 2 ? Shared::kHReaders / 2
                                        : w.count == 3 ? Shared::kHReaders / 3
                                                       : Shared::kHReaders / 4);
      schedule_stages(min(all - done, most), next_group + unit, d, end,
                      from + unit * m.unit_bytes + index * (record * m.stage_pairs),
                      static_cast<uint32_t>(record * pairs));
    }
    next_group += w.count;
    last_visit = visit;
    visit.advance();
    h_slot = h_slot + 1 == a.plan.h_slots ? 0 : h_slot + 1;
  }
  // Until h of the last chunk is there.
  __device__ __forceinline__ void wait_for_h() {
    if (!is_warm_up) ptx::wait(s.h_full[last_visit.slot], last_visit.parity);
  }
  __device__ __forceinline__ void announce(int tile) {
    if (is_warm_up || lane != 0) return;
    s.visit_tile[visit.slot] = tile;
    ptx::arrive(s.visit[visit.slot]);
  }
  __device__ __forceinline__ static uint32_t records_at(int stage, const StageShape& m, int rows) {
    return static_cast<uint32_t>(stage * m.stage_pairs) * ActivationRecord::bytes(rows);
  }
  __device__ __forceinline__ void end() {
    for (int i = 0; i < ExpertsPlan::kAuxWarps; ++i, visit.advance()) announce(-1);
    Stage d{};
    d.kind = Work::Kind::kNone;
    schedule_stages(ExpertsPlan::kWarpgroups, lane, d, {}, nullptr, 0);
  }
};

// All lanes of kScheduler. Each kind of work once for nothing before the wait: code that a launch meets for the first time comes slowly.
__device__ __forceinline__ void schedule(const ExpertsKernelArgs& a, Shared& s, const Rings& rings,
                                         int lane) {
  Scheduler scheduler{a, s, rings, lane};
  Work w{Work::Kind::kUp, 0, 0, 1};
  int next = 0;
  WorkOrder order(0, 1, 1, 1);
  int units_a_cta = 0, held = 0;  // of second matrices
#pragma unroll 1
  for (int step = -3;; ++step) {
    if (step == -1) {
      cuda::wait_for_previous();
      cuda::let_next_begin();
      scheduler.begin();
      held = 0;
      next = scheduler.take();
      const int tiles = __ldcg(a.record + 1);
      const int32_t* const expert_of = a.record + 4;
      const int32_t* const limit_of =
          expert_of + routing::cta_words<int32_t>(static_cast<int32_t>(a.most_tiles));
      int32_t expert[2], limit[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int tile = min(lane + i * cuda::kWarp, a.most_tiles - 1);
        expert[i] = __ldcg(expert_of + tile);
        limit[i] = __ldcg(limit_of + tile);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int tile = lane + i * cuda::kWarp;
        s.experts[tile] = expert[i];
        s.rows[tile] = static_cast<uint8_t>(limit[i] - tile * static_cast<int>(kTileRows));
      }
      __syncwarp();
      const auto grid = static_cast<int>(gridDim.x);
      units_a_cta = (tiles * a.plan.w2.units() + grid - 1) / grid;
      order = WorkOrder(tiles, a.plan.w13.units(), a.plan.w2.units(), ExpertsPlan::kChunk);
    }
    if (step >= -1) w = order[__shfl_sync(cuda::kWholeWarp, next, 0)];
    if (w.kind == Work::Kind::kNone) break;
    if (w.kind == Work::Kind::kUp) {
      scheduler.bring_up(w);
      // Nobody holds two tickets of first matrices while others have none.
      scheduler.wait_for_loader();
    } else {
      scheduler.bring_down(w);
      // Few for each CTA: who waits for h takes no more than its share, with which others could begin.
      held += w.count;
      if (units_a_cta <= ExpertsPlan::kFewUnits && held + w.count > units_a_cta)
        scheduler.wait_for_h();
    }
    next = scheduler.take();
    if (step == -3) w.kind = Work::Kind::kDown;
  }
  scheduler.end();
}

}  // namespace octet::sm90
