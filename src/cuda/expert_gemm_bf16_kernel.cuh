// SPDX-License-Identifier: Apache-2.0
// The kernel that expert_gemm_bf16.cuh is the parts of.
#pragma once

#include "cuda/expert_gemm_bf16.cuh"

namespace octet::cuda {

// Where a warp is in its CTA's range of units: in each step it has a slice of one strip of a tile, or nothing. Moves on without
// divisions, which would be a fifth of a step's instructions.
class GemmCursor {
 public:
  __device__ __forceinline__ GemmCursor(const GemmKernelArgs& a, int warp) : cut_(a.cut) {
    const int32_t a_tile = cut_.units();
    const int64_t units = int64_t{a.routed.num_tiles()} * a_tile;
    const auto first = static_cast<int32_t>(units * blockIdx.x / gridDim.x);
    left_ = (static_cast<int32_t>(units * (blockIdx.x + 1) / gridDim.x) - first) * cut_.rounds;
    tile_ = first / a_tile;
    unit_ = first % a_tile;
    strip_in_unit_ = warp / cut_.slices_together;
    turn_ = warp - strip_in_unit_ * cut_.slices_together;
    has_slice_ = strip_in_unit_ < cut_.strips_together;
    slice_.set(cut_, turn_);
  }
  __device__ __forceinline__ bool is_done() const { return left_ <= 0; }
  __device__ __forceinline__ int32_t tile() const { return tile_; }
  __device__ __forceinline__ int32_t strip() const {
    return unit_ * cut_.strips_together + strip_in_unit_;
  }
  // Which of its strip's slices_together this warp has.
  __device__ __forceinline__ int32_t turn() const { return turn_; }
  __device__ __forceinline__ bool has_strip() const { return has_slice_ && strip() < cut_.strips; }
  __device__ __forceinline__ bool has_work() const {
    return !is_done() && has_strip() &&
           (cut_.rounds == 1 || turn_ + round_ * cut_.slices_together < cut_.slices);
  }
  __device__ __forceinline__ const Slice& slice() const { return slice_; }
  __device__ __forceinline__ bool is_first_round() const { return round_ == 0; }
  __device__ __forceinline__ bool is_last_round() const { return round_ + 1 == cut_.rounds; }
  __device__ __forceinline__ void advance() {
    --left_;
    if (++round_ < cut_.rounds) return slice_.set(cut_, turn_ + round_ * cut_.slices_together);
    round_ = 0;
    if (cut_.rounds > 1) slice_.set(cut_, turn_);
    if (++unit_ < cut_.units()) return;
    unit_ = 0;
    ++tile_;
  }

 private:
  const GemmCut& cut_;
  int32_t left_, tile_, unit_, strip_in_unit_, turn_, round_ = 0;
  bool has_slice_;
  Slice slice_;
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

template <class Traits, GemmPhase phase>
__global__ __launch_bounds__(kGemmThreads, 1) void expert_gemm_bf16_kernel(
    const __grid_constant__ GemmKernelArgs a) {
  extern __shared__ __align__(128) uint8_t shared[];
  constexpr int kSlotBytes = kSlicePairs * Traits::kRecordBytes;
  float4* const part = reinterpret_cast<float4*>(shared);
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  uint8_t* const ring = shared + kPartBytes + warp * a.ring_slots * kSlotBytes;
  const uint64_t policy = evict_first_policy();

  // GEMM1 lets the next kernel begin only when the record is there, so GEMM2 may read it, and load weights, before it waits.
  if constexpr (phase == GemmPhase::kUp) {
    wait_for_previous();
    let_next_begin();
    for (auto s = static_cast<int32_t>(blockIdx.x * kGemmThreads + threadIdx.x); s < a.routed.slots;
         s += static_cast<int32_t>(gridDim.x) * kGemmThreads) {
      a.args.slot_row[s] = a.routed.slot_row(s);
    }
  } else {
    let_next_begin();
  }
  GemmCursor ahead(a, warp), now = ahead;
  const auto load_weights = [&](int slot) {
    if (ahead.has_work()) {
      const uint8_t* from =
          a.matrix + a.routed.expert(ahead.tile()) * a.expert_bytes +
          uint64_t{ahead.slice().record(a.cut, ahead.strip())} * Traits::kRecordBytes;
      const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(ring + slot * kSlotBytes));
      const int chunks = ahead.slice().count * (Traits::kRecordBytes / 16);
#pragma unroll
      for (int i = 0; i < ceil_div(kSlotBytes / 16, kWarp); ++i) {
        const int chunk = i * kWarp + lane;
        if (chunk < chunks) copy_16_async(to + 16 * chunk, from + 16 * chunk, policy);
      }
    }
    if (!ahead.is_done()) ahead.advance();
    commit_copies();
  };
  for (int i = 0; i < a.ring_slots - 1; ++i) load_weights(i);
  if constexpr (phase == GemmPhase::kDown) wait_for_previous();

  uint32_t x[kSlicePairs][8];
  float acc[2][4] = {};
  int32_t tile = -1;
  uint32_t held = 0;
  int slot = 0, parity = 0, turn = 0;
#pragma unroll 1
  for (; !now.is_done(); now.advance()) {
    if (now.has_work() && (now.tile() != tile || a.cut.rounds > 1)) {
      tile = now.tile();
      held = load_activations<Traits, phase>(a, tile, now.slice(), x);
    }
    __syncwarp();  // the slot before this one is read
    load_weights(slot == 0 ? a.ring_slots - 1 : slot - 1);
    wait_for_copies(a.ring_slots - 1);
    __syncwarp();
    if (now.has_work()) {
#pragma unroll
      for (int i = 0; i < kSlicePairs; ++i) {
        if (i >= now.slice().count) break;
        multiply_record<Traits>(ring + slot * kSlotBytes + i * Traits::kRecordBytes, lane, x[i],
                                acc);
      }
    }
    slot = slot + 1 == a.ring_slots ? 0 : slot + 1;
    float sum[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sum[i] = acc[0][i] + acc[1][i];
      acc[0][i] = acc[1][i] = 0;
    }
    if constexpr (phase == GemmPhase::kUp) {
      if (held != 0) release_held(held, lane, sum);
    }
    float4* const mine = part + parity * kGemmWarps * kWarp;
    float4& total = mine[warp * kWarp + lane];
    if (now.is_first_round()) {
      total = make_float4(sum[0], sum[1], sum[2], sum[3]);
    } else {
      total = make_float4(total.x + sum[0], total.y + sum[1], total.z + sum[2], total.w + sum[3]);
    }
    if (!now.is_last_round()) continue;
    __syncthreads();
    if (now.has_strip() && now.turn() == turn) {
      const float4 sum = sum_slices(mine + (warp - turn) * kWarp + lane, a.cut.slices_together);
      constexpr auto kUnshift = static_cast<float>(1 << Traits::kShift);
      const int32_t expert = a.routed.expert(now.tile());
      if constexpr (phase == GemmPhase::kUp) {
        store_hidden(a, now.tile(), expert, now.strip(), sum, kUnshift);
      } else {
        store_rows(a, now.tile(), expert, now.strip(), sum, kUnshift);
      }
    }
    parity ^= 1;
    turn = turn + 1 == a.cut.slices_together ? 0 : turn + 1;
  }
}

}  // namespace octet::cuda
