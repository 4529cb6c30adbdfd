// SPDX-License-Identifier: Apache-2.0
// The kernel that expert_gemm_bf16.cuh is the parts of.
#pragma once

#include "cuda/expert_gemm_bf16.cuh"

namespace octet::cuda {

// Where a warp is in its CTA's range of units: in each step it has a slice of one strip of a tile, or nothing. Moves on without
// divisions, which would be a fifth of a step's instructions.
struct GemmCursor {
  int32_t left, tile, unit, round = 0;  // steps; unit of the tile
  __device__ __forceinline__ GemmCursor(const GemmCut& cut, int32_t num_tiles) {
    const auto cta = static_cast<int32_t>(blockIdx.x), ctas = static_cast<int32_t>(gridDim.x);
    const int32_t units = num_tiles * cut.units();
    const int32_t each = units / ctas, more = units % ctas;
    const int32_t first = cta * each + min(cta, more);
    left = (each + (cta < more ? 1 : 0)) * cut.rounds;
    tile = first / cut.units();
    unit = first - tile * cut.units();
  }
  __device__ __forceinline__ void advance(const GemmCut& cut) {
    --left;
    if (++round < cut.rounds) return;
    round = 0;
    if (++unit < cut.units()) return;
    unit = 0;
    ++tile;
  }
};

// Which of the CTA's strips and slices a warp has.
struct WarpShare {
  int32_t strip, turn;  // of the unit's strips; of the strip's slices
  Slice slice;          // of the first round
  __device__ __forceinline__ WarpShare(const GemmCut& cut, int warp) {
    strip = warp / cut.slices_together;
    turn = warp - strip * cut.slices_together;
    slice.set(cut, turn);
  }
  __device__ __forceinline__ int32_t strip_of(const GemmCut& cut, const GemmCursor& at) const {
    return at.unit * cut.strips_together + strip;
  }
  __device__ __forceinline__ bool has_strip(const GemmCut& cut, const GemmCursor& at) const {
    return at.left > 0 && strip < cut.strips_together && strip_of(cut, at) < cut.strips;
  }
  // Without records if the last round has no slice for the warp.
  __device__ __forceinline__ Slice slice_of(const GemmCut& cut, const GemmCursor& at) const {
    if (cut.rounds == 1) return slice;
    Slice s;
    const int32_t index = turn + at.round * cut.slices_together;
    s.set(cut, index);
    if (index >= cut.slices) s.count = 0;
    return s;
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
#pragma unroll
  for (int j = 0; j < kGemmWarps; ++j) {
    if (j < count) add(sums[j % 4], part[j * kWarp]);
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
    __syncthreads();
    return routed;
  }
  for (int32_t i = thread; i < routed.words(); i += kGemmThreads)
    shared.record[i] = routed.record[i];
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

// A unit's strip whose slices one warp will add up.
struct Pending {
  int32_t tile = 0, strip = 0, buffer = 0;
  uint32_t parity = 0;
  bool is_mine = false;
};

template <class Traits, GemmPhase phase>
__device__ __forceinline__ void finish(const GemmKernelArgs& a, const RoutedRows& routed,
                                       GemmShared& shared, const WarpShare& share,
                                       const Pending& p) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  wait_for_phase(&shared.full[p.buffer][share.strip], p.parity);
  const float4 sum = sum_slices(&shared.part[p.buffer][share.strip * a.cut.slices_together][lane],
                                a.cut.slices_together);
  __syncwarp();
  if (lane == 0) arrive(&shared.empty[p.buffer][share.strip]);
  constexpr auto kUnshift = static_cast<float>(1 << Traits::kShift);
  const int32_t expert = routed.expert(p.tile);
  if constexpr (phase == GemmPhase::kUp) {
    store_hidden(a, routed, p.tile, expert, p.strip, sum, kUnshift);
  } else {
    store_rows(a, routed, p.tile, expert, p.strip, sum, kUnshift);
  }
}

template <class Traits, GemmPhase phase>
__global__ __launch_bounds__(kGemmThreads, 1) void expert_gemm_bf16_kernel(
    const __grid_constant__ GemmKernelArgs a) {
  extern __shared__ __align__(128) uint8_t dynamic_shared[];
  GemmShared& shared = *reinterpret_cast<GemmShared*>(dynamic_shared);
  constexpr int kSlotBytes = kSlicePairs * Traits::kRecordBytes;
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  uint8_t* const ring = dynamic_shared + kGemmSharedBytes + warp * a.ring_slots * kSlotBytes;
  const GemmCut& cut = a.cut;
  const WarpShare share(cut, warp);

  // GEMM1 lets the next kernel begin only when the record is there, so GEMM2 may read it, and load weights, before it waits.
  if constexpr (phase == GemmPhase::kUp) wait_for_previous();
  let_next_begin();
  const RoutedRows routed = prepare_shared<phase>(a, shared);
  GemmCursor now(cut, routed.num_tiles()), ahead = now;
  const uint64_t policy = evict_first_policy();
  const auto load_weights = [&](int slot) {
    if (share.has_strip(cut, ahead)) {
      const Slice slice = share.slice_of(cut, ahead);
      const uint8_t* from =
          a.matrix + routed.expert(ahead.tile) * a.expert_bytes +
          uint64_t{slice.record(cut, share.strip_of(cut, ahead))} * Traits::kRecordBytes;
      copy_slot<kSlotBytes>(ring + slot * kSlotBytes, from, slice.count * Traits::kRecordBytes,
                            lane, policy);
    }
    if (ahead.left > 0) ahead.advance(cut);
    commit_copies();
  };
  for (int i = 0; i < a.ring_slots - 1; ++i) load_weights(i);
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
  int32_t tile = -1;
  uint32_t held = 0, parity = 0;
  int slot = 0, buffer = 0, turn = 0;
  Pending pending;
#pragma unroll 1
  for (; now.left > 0; now.advance(cut)) {
    const bool has_strip = share.has_strip(cut, now);
    const Slice slice = share.slice_of(cut, now);
    if (has_strip && (now.tile != tile || cut.rounds > 1)) {
      tile = now.tile;
      held = load_activations<Traits, phase>(a, routed, tile, slice, x);
    }
    __syncwarp();  // the slot before this one is read
    load_weights(slot == 0 ? a.ring_slots - 1 : slot - 1);
    wait_for_copies(a.ring_slots - 1);
    __syncwarp();
    const uint8_t* const records = ring + slot * kSlotBytes;
    slot = slot + 1 == a.ring_slots ? 0 : slot + 1;
    if (!has_strip) continue;
    multiply_slice<Traits>(records, slice.count, lane, x, acc);
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
    if (now.round == 0) {
      wait_for_phase(&shared.empty[buffer][share.strip], parity ^ 1);
      total = make_float4(sum[0], sum[1], sum[2], sum[3]);
    } else {
      total = make_float4(total.x + sum[0], total.y + sum[1], total.z + sum[2], total.w + sum[3]);
    }
    if (now.round + 1 < cut.rounds) continue;
    __syncwarp();
    if (lane == 0) arrive(&shared.full[buffer][share.strip]);
    if (pending.is_mine) finish<Traits, phase>(a, routed, shared, share, pending);
    pending = {tile, share.strip_of(cut, now), buffer, parity, turn == share.turn};
    turn = turn + 1 == cut.slices_together ? 0 : turn + 1;
    buffer = buffer + 1 == kPartBuffers ? 0 : buffer + 1;
    if (buffer == 0) parity ^= 1;
  }
  if (pending.is_mine) finish<Traits, phase>(a, routed, shared, share, pending);
}

}  // namespace octet::cuda
