// SPDX-License-Identifier: Apache-2.0
// The kernel that expert_gemm_bf16.cuh is the parts of.
#pragma once

#include "cuda/expert_gemm_bf16.cuh"

namespace octet::cuda {

// The units of a CTA: `count` of them, from `unit` of `tile` on.
struct UnitRange {
  int32_t count, tile, unit;
  __device__ __forceinline__ UnitRange(const GemmCut& cut, int32_t num_tiles) {
    const auto cta = static_cast<int32_t>(blockIdx.x), ctas = static_cast<int32_t>(gridDim.x);
    const int32_t a_tile = cut.units();
    const int32_t units = num_tiles * a_tile;
    const int32_t each = units / ctas, more = units % ctas;
    const int32_t first = cta * each + min(cta, more);
    count = each + (cta < more ? 1 : 0);
    tile = first / a_tile;
    unit = first - tile * a_tile;
  }
};

// Where a warp is in its CTA's range, step by step: in each it has a slice of its strip of a unit. Divisions and the general formula of
// a record's place would be a third of a step's instructions, so places are kept: of the slice in strip 0, a strip's and a group's
// distance. `many` rounds: the slices differ from step to step.
template <class Traits, bool many>
struct GemmCursor {
  int32_t left, tile, strip, round = 0;
  Slice slice;
  const uint8_t* expert;  // its matrix

  __device__ __forceinline__ GemmCursor(const GemmKernelArgs& a, const RoutedRows& routed,
                                        const UnitRange& range, int32_t warp_strip, int32_t turn)
      : left(range.count * (many ? a.cut.rounds : 1)),
        tile(range.tile),
        strip(range.unit * a.cut.strips_together + warp_strip) {
    slice.set(a.cut, turn);
    if (left > 0) expert = a.matrix + routed.expert(tile) * a.expert_bytes;
  }
  __device__ __forceinline__ const uint8_t* records(const GemmCut& cut) const {
    const int32_t group = strip / 4;
    int32_t records =
        group * (4 * cut.pairs) + strip % 4 * slice.in_stage + 4 * slice.stage_records + slice.from;
    if (group == cut.strips / 4) records -= (4 - cut.strips % 4) * slice.stage_records;
    return expert + uint32_t(records) * Traits::kRecordBytes;
  }
  __device__ __forceinline__ bool is_last_round(const GemmCut& cut) const {
    return !many || round + 1 == cut.rounds;
  }
  __device__ __forceinline__ void advance(const GemmKernelArgs& a, const RoutedRows& routed,
                                          int32_t warp_strip, int32_t turn) {
    const GemmCut& cut = a.cut;
    --left;
    if constexpr (many) {
      round = is_last_round(cut) ? 0 : round + 1;
      const int32_t index = turn + round * cut.slices_together;
      slice.set(cut, index);
      if (index >= cut.slices) slice.count = 0;
      if (round != 0) return;
    }
    strip += cut.strips_together;
    if (strip - warp_strip < cut.strips_of_units) return;
    strip = warp_strip;
    ++tile;
    if (left > 0) expert = a.matrix + routed.expert(tile) * a.expert_bytes;
  }
};

// Sums of one strip's slices: four running ones, then a tree.
__device__ __forceinline__ float4 sum_slices(const float4* part, int32_t count) {
  float4 sums[4];
#pragma unroll
  for (float4& s : sums) s = make_float4(-0.0F, -0.0F, -0.0F, -0.0F);
  const auto add = [](float4& to, const float4& v) {
    to.x += v.x;
    to.y += v.y;
    to.z += v.z;
    to.w += v.w;
  };
#pragma unroll 1
  for (int j = 0; j < count; j += 4) {
    float4 v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      v[i] = j + i < count ? part[(j + i) * kWarp] : make_float4(-0.0F, -0.0F, -0.0F, -0.0F);
#pragma unroll
    for (int i = 0; i < 4; ++i) add(sums[i], v[i]);
  }
  add(sums[0], sums[1]);
  add(sums[2], sums[3]);
  add(sums[0], sums[2]);
  return sums[0];
}

// Of rows 2 t and 2 t + 1, those whose activations are held: load_activations().
__device__ __forceinline__ void release_held(uint32_t held, int lane, float (&sum)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = 2 * (lane % 4) + i % 2;
    if ((held >> (4 * row) & 1U) != 0) sum[i] *= static_cast<float>(1 << kHold);
  }
}

// A slice's records times its activations.
template <class Traits>
__device__ __forceinline__ void multiply_slice(const uint8_t* records, int32_t count, int lane,
                                               const uint32_t (&x)[kSlicePairs][8],
                                               float (&acc)[2][4]) {
  if (count == kSlicePairs) {  // without branches, so that records overlap
#pragma unroll
    for (int i = 0; i < kSlicePairs; ++i)
      multiply_record<Traits>(records + i * Traits::kRecordBytes, lane, x[i], acc);
    return;
  }
#pragma unroll
  for (int i = 0; i < kSlicePairs - 1; ++i) {
    if (i < count) multiply_record<Traits>(records + i * Traits::kRecordBytes, lane, x[i], acc);
  }
}

// Barriers, the record, and which slot each row is: all threads.
template <GemmPhase phase>
__device__ __forceinline__ RoutedRows prepare_shared(const GemmKernelArgs& a, GemmShared& shared) {
  const auto thread = static_cast<int32_t>(threadIdx.x);
  if (thread < kPartBuffers * kGemmWarps) {
    init_barrier(&shared.full[0][0] + thread, a.cut.slices_together);
    init_barrier(&shared.empty[0][0] + thread, 1);
  }
  RoutedRows routed = a.routed;
  if (routed.ctas > kSharedTiles) {
    wait_for_previous();  // read where it is, all the time
    __syncthreads();
    return routed;
  }
  // From the second-level cache: this multiprocessor's own may hold an earlier call's.
  for (int32_t i = thread; i < routed.words(); i += kGemmThreads)
    shared.record[i] = __ldcg(&routed.record[i]);
  routed.record = shared.record;
  __syncthreads();
  if constexpr (phase == GemmPhase::kDown) {
    static_assert(8 * kSharedTiles <= kGemmThreads);
    if (thread < 8 * routed.num_tiles()) shared.row_slots[thread] = routed.slot(thread);
    routed.row_slots = shared.row_slots;
    __syncthreads();
  }
  return routed;
}

// A unit's strip whose slices one of its warps will add up; negative tile: none.
struct Pending {
  int32_t tile = -1, strip = 0;
};

template <class Traits, GemmPhase phase>
__device__ __forceinline__ void finish(const GemmKernelArgs& a, const RoutedRows& routed,
                                       GemmShared& shared, int32_t warp_strip, const Pending& p,
                                       int buffer, uint32_t parity) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  wait_for_phase(&shared.full[buffer][warp_strip], parity);
  const float4 sum = sum_slices(&shared.part[buffer][warp_strip * a.cut.slices_together][lane],
                                a.cut.slices_together);
  __syncwarp();
  if (lane == 0) arrive(&shared.empty[buffer][warp_strip]);
  constexpr auto kUnshift = static_cast<float>(1 << Traits::kShift);
  const int32_t expert = routed.expert(p.tile);
  if constexpr (phase == GemmPhase::kUp) {
    store_hidden(a, routed, p.tile, expert, p.strip, sum, kUnshift);
    if (a.hidden == nullptr && p.strip == a.cut.strips - 1) {
      for (int n = 0; n < 8 && 8 * p.tile + n < routed.limit(p.tile); ++n)
        clear_padding(a, p.tile, n);
    }
  } else {
    store_rows(a, routed, p.tile, expert, p.strip, sum, kUnshift);
  }
}

template <class Traits, GemmPhase phase, bool many>
__global__ __launch_bounds__(kGemmThreads, 1) void expert_gemm_bf16_kernel(
    const __grid_constant__ GemmKernelArgs a) {
  extern __shared__ __align__(128) uint8_t dynamic_shared[];
  GemmShared& shared = *reinterpret_cast<GemmShared*>(dynamic_shared);
  constexpr int kSlotBytes = kSlicePairs * Traits::kRecordBytes;
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  const GemmCut& cut = a.cut;
  const int32_t warp_strip = warp / cut.slices_together;  // of a unit's
  const int32_t turn = warp - warp_strip * cut.slices_together;
  uint8_t* const ring = dynamic_shared + kGemmSharedBytes + warp * a.ring_slots * kSlotBytes;

  // GEMM1 lets the next kernel begin only when the record is there, so GEMM2 may read it, and load weights, before it waits.
  if constexpr (phase == GemmPhase::kUp) wait_for_previous();
  let_next_begin();
  const RoutedRows routed = prepare_shared<phase>(a, shared);
  const UnitRange range(cut, routed.num_tiles());
  using Cursor = GemmCursor<Traits, many>;
  Cursor ahead(a, routed, range, warp_strip, turn);
  if (warp_strip >= cut.strips_together) ahead.left = 0;  // a warp too many
  Cursor now = ahead;
  int ahead_slot = 0;
  const auto load_weights = [&] {
    if (ahead.left > 0) {
      if (ahead.strip < cut.strips) {
        copy_slot<kSlotBytes>(ring + ahead_slot, ahead.records(cut),
                              ahead.slice.count * Traits::kRecordBytes, lane);
      }
      ahead.advance(a, routed, warp_strip, turn);
    }
    commit_copies();
    ahead_slot = ahead_slot + kSlotBytes == a.ring_slots * kSlotBytes ? 0 : ahead_slot + kSlotBytes;
  };
  for (int i = 0; i < a.ring_slots - 1; ++i) load_weights();
  if constexpr (phase == GemmPhase::kUp) {
    for (auto s = static_cast<int32_t>(blockIdx.x * kGemmThreads + threadIdx.x); s < routed.slots;
         s += static_cast<int32_t>(gridDim.x) * kGemmThreads) {
      a.args.slot_row[s] = routed.slot_row(s);
    }
  } else {
    wait_for_previous();
  }

  uint32_t x[kSlicePairs][8];
  float acc[2][4] = {};
  uint32_t held = 0, parity = 0;
  int32_t tile = -1;
  int slot = 0, buffer = 0, until_mine = turn;
  Pending pending;
  // Of the buffer that was filled last, before the one at hand.
  const auto finish_pending = [&] {
    if (pending.tile < 0) return;
    const bool is_first = buffer == 0;
    finish<Traits, phase>(a, routed, shared, warp_strip, pending,
                          is_first ? kPartBuffers - 1 : buffer - 1, is_first ? parity ^ 1 : parity);
  };
#pragma unroll 1
  for (; now.left > 0; now.advance(a, routed, warp_strip, turn)) {
    const bool has_strip = now.strip < cut.strips;
    if (has_strip && (many || now.tile != tile)) {
      tile = now.tile;
      held = load_activations<Traits, phase>(a, routed, tile, now.slice, x);
    }
    __syncwarp();  // the slot before this one is read
    load_weights();
    wait_for_copies(a.ring_slots - 1);
    __syncwarp();
    const uint8_t* const records = ring + slot;
    slot = slot + kSlotBytes == a.ring_slots * kSlotBytes ? 0 : slot + kSlotBytes;
    if (!has_strip) continue;
    multiply_slice<Traits>(records, now.slice.count, lane, x, acc);
    float sum[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sum[i] = acc[0][i] + acc[1][i];
      acc[0][i] = acc[1][i] = 0;
    }
    if constexpr (phase == GemmPhase::kUp) {
      if (held != 0) release_held(held, lane, sum);
    }
    float4& total = shared.part[buffer][warp][lane];
    if (!many || now.round == 0) {
      wait_for_phase(&shared.empty[buffer][warp_strip], parity ^ 1);
      total = make_float4(sum[0], sum[1], sum[2], sum[3]);
    } else {
      total = make_float4(total.x + sum[0], total.y + sum[1], total.z + sum[2], total.w + sum[3]);
    }
    if (!now.is_last_round(cut)) continue;
    __syncwarp();
    if (lane == 0) arrive(&shared.full[buffer][warp_strip]);
    finish_pending();
    pending = {until_mine == 0 ? tile : -1, now.strip};
    until_mine = until_mine == 0 ? cut.slices_together - 1 : until_mine - 1;
    if (++buffer == kPartBuffers) {
      buffer = 0;
      parity ^= 1;
    }
  }
  finish_pending();
}

}  // namespace octet::cuda
