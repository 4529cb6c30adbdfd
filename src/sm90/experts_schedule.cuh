// SPDX-License-Identifier: Apache-2.0
// kScheduler of the experts' kernel: takes tickets, and works out for each of their stages what kLoader copies where and what a warpgroup does
// with it. Beside busy warps an instruction takes ten cycles, so the lanes of a warp work out a stage each, and another warp copies.
#pragma once

#include "cuda/launch.h"
#include "sm90/experts_front.cuh"
#include "sm90/experts_shared.cuh"
#include "sm90/ptx/mbarrier.cuh"

namespace octet::sm90 {

// kScheduler's place in the ring and among the warpgroups. All lanes know it, so that the stages of a unit or a chunk are worked out side by
// side, a lane each.
template <class Traits>
struct Scheduler {
  const ExpertsKernelArgs<Traits>& a;
  Shared& s;
  const Rings<Traits>& rings;
  int lane;
  int at = 0;               // the next slot
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
    turn = at = next_group = buffer = h_slot = 0;
    visit = {};
    parities = ~0U;
    is_warm_up = false;
  }
  // Until the loader has nearly come to the end of what was scheduled last.
  __device__ __forceinline__ void wait_for_loader() {
    if (!is_pending) return;
    ptx::wait(s.taken, taken);
    taken ^= 1;
    is_pending = false;
  }

  // What is scheduled at a time: of each lane's stage.
  struct Batch {
    int count, group;
    const uint8_t* from;
    uint32_t bytes;
    Stage d = {};
    StageEnd end = {};
  };
  // Lane i has the i-th stage, for a warpgroup (taken modulo their number).
  __device__ __forceinline__ void schedule_stages(Batch& b) {
    constexpr int kGroups = ExpertsRoles::kWarpgroups;
    const int count = b.count, group = b.group % kGroups;
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
    const int num_slots = a.plan.num_slots();
    static_assert(Shared::kTogether <= 2 * Traits::kFewestSlots);
    int own_slot = at + lane % Shared::kTogether;
    own_slot -= own_slot >= num_slots ? num_slots : 0;
    own_slot -= own_slot >= num_slots ? num_slots : 0;
    const uint32_t parity = (parities >> own_slot & 1) ^ (lane >= num_slots ? 1U : 0U);
    parities ^= __reduce_xor_sync(cuda::kWholeWarp, lane < count ? 1U << own_slot : 0U);
    at += count;
    at -= at >= num_slots ? num_slots : 0;
    at -= at >= num_slots ? num_slots : 0;
    b.end.slot = static_cast<uint8_t>(own_slot);
    b.d.weights = rings.slot_at(a.plan, own_slot);
    wait_for_loader();
    if (lane < count) {
      s.stage[group][own_turn] = b.d;
      s.stage_end[group][own_turn] = b.end;
      s.copies[lane] = {b.from,
                        b.bytes,
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
    return is_warm_up || lane != 0 ? 0
                                   : LaunchWord{add_to_word(a.word, LaunchWord::kTicket)}.ticket();
  }

  // Leaves go to the warpgroups in turn.
  __device__ __forceinline__ Batch up_batch(const Work& w, const uint8_t* expert, int done) const {
    const StageShape<Traits>& m = a.plan.w13;
    const int a_leaf = m.leaves.stages_a_leaf, index = done + lane,
              leaf = a_leaf == 1 ? index : index / a_leaf, pairs = m.pairs_in(index);
    const bool ends_leaf = index + 1 == m.num_stages || index + 1 == (leaf + 1) * a_leaf;
    const bool ends_share = ends_leaf && leaf + ExpertsRoles::kWarpgroups >= m.leaves.count;
    Batch b{min(m.num_stages - done, Shared::kTogether), next_group + leaf,
            expert + w.first * m.unit_bytes + index * m.stage_bytes(),
            static_cast<uint32_t>(pairs * 4 * Traits::kWeightRecordBytes)};
    b.d.activations = rings.x_at + records_at(index, m, a.plan.rows);
    b.d.pairs = static_cast<uint8_t>(pairs);
    b.d.padded_rows = static_cast<uint8_t>(a.plan.rows);
    b.end.unit = static_cast<uint16_t>(w.first);
    b.end.flags = static_cast<uint8_t>((ends_leaf ? StageEnd::kEndsLeaf : 0) |
                                       (ends_share ? StageEnd::kEndsShare : 0));
    b.end.leaf = static_cast<uint8_t>(leaf);
    b.end.buffer = static_cast<uint8_t>(buffer);
    return b;
  }
  // Units of a chunk go to the warpgroups in turn, each with all of its stages.
  __device__ __forceinline__ Batch down_batch(const Work& w, const uint8_t* expert, int done,
                                              int most) const {
    const StageShape<Traits>& m = a.plan.w2;
    const int rows = rows_of(s.tiles[w.tile]), padded_rows = Traits::Record::padded_rows(rows);
    const int a_leaf = m.leaves.stages_a_leaf, own = done + lane,
              index = m.num_stages == 1 ? 0 : own / w.count, unit = own - index * w.count,
              leaf = a_leaf == 1 ? index : index / a_leaf, pairs = m.pairs_in(index),
              record = m.strips_in(w.first + unit) * Traits::kWeightRecordBytes;
    const bool is_last = index + 1 == m.num_stages;
    Batch b{
        min(m.num_stages * w.count - done, most), next_group + unit,
        expert + a.w2_offset + (w.first + unit) * m.unit_bytes + index * (record * m.stage_pairs),
        static_cast<uint32_t>(record * pairs)};
    b.d.activations = rings.h_slot_at(a.plan, h_slot) + records_at(index, m, padded_rows);
    b.d.pairs = static_cast<uint8_t>(pairs);
    b.d.padded_rows = static_cast<uint8_t>(padded_rows);
    b.d.h = static_cast<uint8_t>(visit.slot);
    b.d.h_parity = static_cast<uint8_t>(visit.parity);
    b.end.unit = static_cast<uint16_t>(w.first + unit);
    b.end.flags = static_cast<uint8_t>(
        (is_last || index + 1 == (leaf + 1) * a_leaf ? StageEnd::kEndsLeaf : 0) |
        (is_last ? StageEnd::kEndsShare : 0));
    b.end.leaf = static_cast<uint8_t>(leaf);
    b.end.rows = static_cast<uint8_t>(rows);
    b.end.h_slot = static_cast<uint8_t>(h_slot);
    b.end.weight = static_cast<uint8_t>(w.count == 1   ? Shared::kHReaders
                                        : w.count == 2 ? Shared::kHReaders / 2
                                        : w.count == 3 ? Shared::kHReaders / 3
                                                       : Shared::kHReaders / 4);
    return b;
  }
  // A ticket's stages; of kNone, the word to each warpgroup that there are no more.
  __device__ __forceinline__ void bring(const Work& w) {
    const bool is_up = w.kind == Work::Kind::kUp, is_down = w.kind == Work::Kind::kDown;
    const int most = is_down && w.count == 3 ? Shared::kTogether / 3 * 3 : Shared::kTogether;
    static_assert(Shared::kTogether % 4 == 0 && ExpertsRoles::kChunk <= 4);
    const int all = is_up     ? a.plan.w13.num_stages
                    : is_down ? a.plan.w2.num_stages * w.count
                              : ExpertsRoles::kWarpgroups;
    const uint8_t* const expert =
        a.weights + (is_up || is_down ? s.tiles[w.tile].expert * a.expert_bytes : 0);
    if (is_down) announce(w.tile);
#pragma unroll 1
    for (int done = 0; done < all; done += most) {
      Batch b{ExpertsRoles::kWarpgroups, lane, nullptr, 0};
      if (is_up) b = up_batch(w, expert, done);
      if (is_down) b = down_batch(w, expert, done, most);
      b.d.kind = w.kind;
      b.end.tile = static_cast<uint16_t>(w.tile);
      schedule_stages(b);
    }
    if (is_up) {
      next_group += a.plan.w13.leaves.count;
      buffer = buffer + 1 == a.plan.buffers ? 0 : buffer + 1;
    }
    if (!is_down) return;
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
  __device__ __forceinline__ static uint32_t records_at(int stage, const StageShape<Traits>& m,
                                                        int rows) {
    return static_cast<uint32_t>(stage * m.stage_pairs) * Traits::Record::bytes(rows);
  }
};

// All lanes of kScheduler: this launch's half, kAux's early tickets, and the first ticket.
template <class Traits>
__device__ __forceinline__ int enter(const ExpertsKernelArgs<Traits>& a, Shared& s, int lane) {
  const auto is_clear = [&](int half) {  // in 64 places, from its first word to its last
    if (Traits::kHandsXOver && a.front.x == nullptr) return true;  // make_ready has seen to it
    const uint8_t* const at = a.halves + half * a.half_bytes;
    const int64_t words = a.half_bytes / 16;
    const uint4 v = ptx::load_relaxed(at + words * lane / 64 * 16),
                w = ptx::load_relaxed(at + (words - 1 - words * lane / 64) * 16);
    const uint32_t all = v.x & v.y & v.z & v.w & w.x & w.y & w.z & w.w;
    return __all_sync(cuda::kWholeWarp, all == ptx::kNotYet) != 0;
  };
  const LaunchWord word = enter_launch(
      a.word, a.half_bytes,
      LaunchWord::kTicket + ExpertsRoles::kAuxWarps * LaunchWord::kEarlyTicket, lane, is_clear);
  if (lane != 0) return 0;
  s.word = word;
  s.half = a.halves + word.half() * a.half_bytes;
  s.h = s.half + a.h_at;
  s.rows = a.rows != nullptr ? a.rows : reinterpret_cast<Bf16*>(s.half + a.rows_at);
  return word.ticket();
}

// Lane 0, once this CTA has no more to do with the word: each CTA takes another ticket, and who gets the last of them is the last to leave.
template <class Traits>
__device__ __forceinline__ void leave(const ExpertsKernelArgs<Traits>& a, const Shared& s,
                                      const WorkOrder& order) {
  const int last = order.num_all + 2 * static_cast<int>(gridDim.x) - 1;
  if (LaunchWord{add_to_word(a.word, LaunchWord::kTicket)}.ticket() == last)
    *a.word = LaunchWord::at_rest(a.half_bytes, s.half == a.halves ? 1 : 0);
}

// All lanes of kScheduler. Each kind of work once for nothing before the wait: code that a launch meets for the first time comes slowly.
template <class Traits>
__device__ __forceinline__ void schedule(const ExpertsKernelArgs<Traits>& a, Shared& s,
                                         const Rings<Traits>& rings, int lane) {
  Scheduler<Traits> scheduler{a, s, rings, lane};
  Work w{Work::Kind::kUp, 0, 0, 1};
  int next = 0;
  WorkOrder order(0, a.plan.w13.units(), a.plan.w2.units(), ExpertsRoles::kChunk);
  const auto grid = static_cast<int>(gridDim.x);
  int held = 0, all_down = 0;  // units of second matrices: this CTA's, and all CTAs'
#pragma unroll 1
  for (int step = -3;; ++step) {
    if (step == -1) {
      cuda::wait_for_previous();
      cuda::let_next_begin();
      scheduler.begin();
      held = 0;
      next = enter(a, s, lane);
      __syncwarp();
      cuda::arrive(kEntered, kHalfKnown);
      if (!s.word.is_ready()) wait_until_cleared(a.word, lane);
      cuda::meet(ExpertsRoles::kThreads - cuda::kWarp, kTilesRead);
      order.set_tiles(s.num_tiles);
      all_down = s.num_tiles * a.plan.w2.units();
    }
    if (step >= -1) w = order[__shfl_sync(cuda::kWholeWarp, next, 0)];
    if (w.kind == Work::Kind::kNone) {
      for (int i = 0; i < ExpertsRoles::kAuxWarps; ++i, scheduler.visit.advance())
        scheduler.announce(-1);
    }
    scheduler.bring(w);
    if (w.kind == Work::Kind::kNone) {
      if (lane == 0) leave(a, s, order);
      return;
    }
    if (w.kind == Work::Kind::kUp) {
      // Nobody holds two tickets of first matrices while others have none.
      scheduler.wait_for_loader();
    } else {
      // Few for each CTA: who waits for h takes no more than its share, with which others could begin.
      held += w.count;
      if (all_down <= ExpertsRoles::kFewUnits * grid && (held + w.count - 1) * grid >= all_down)
        scheduler.wait_for_h();
    }
    next = scheduler.take();
    if (step == -3) w.kind = Work::Kind::kDown;
  }
}

}  // namespace octet::sm90
