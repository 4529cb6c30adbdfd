// SPDX-License-Identifier: Apache-2.0
// Bulk copies from global to shared memory of the experts' kernel, all by kLoader; h comes through kAux (experts_aux.cuh).
#pragma once

#include "cuda/async_copy.cuh"
#include "cuda/launch.h"
#include "sm90/experts_shared.cuh"
#include "sm90/ptx/bulk_copy.cuh"

namespace octet::sm90 {

// All lanes: of a launch without a front the record; and x, of BF16 as it is, of MXFP8 its records where there is no front. In pieces, CTAs
// beginning with different ones, since the same lines for all CTAs come one after the other. For the same reason copies and not loads: those
// of 16 warps of all CTAs took thousands of cycles.
template <class Traits>
__device__ __forceinline__ void load_record_and_x(const ExpertsKernelArgs<Traits>& a, Shared& s,
                                                  const Rings<Traits>& rings, int lane) {
  constexpr int kPieces = 16;
  const uint64_t policy = ptx::evict_normal();
  // make_ready begins at half 0.
  const uint8_t* const x = Traits::kHandsXOver ? a.halves + ExpertsWorkspace::kXAt
                                               : reinterpret_cast<const uint8_t*>(a.x);
  const int bytes = Traits::kHandsXOver ? a.plan.x_bytes() : a.tokens * a.hidden * 2,
            piece = (bytes / kPieces + 127) / 128 * 128;
  if (lane == 0) {
    if (a.front.x == nullptr) {
      const auto record_bytes = static_cast<uint32_t>(routing::record_words(a.most_tiles) * 4);
      ptx::arrive_expecting(s.record_full, record_bytes);
      ptx::bulk_copy(rings.record(), a.record, record_bytes, s.record_full, policy);
    }
    ptx::arrive_expecting(s.x_full, static_cast<uint32_t>(bytes));
  }
  __syncwarp();
  const int at = (lane + static_cast<int>(blockIdx.x)) % kPieces * piece;
  if (lane >= kPieces || at >= bytes) return;
  ptx::bulk_copy(rings.base + rings.x_at + at, x + at,
                 static_cast<uint32_t>(min(piece, bytes - at)), s.x_full, policy);
}

// All lanes of kLoader: record and activations where there is no front, then the copies as they are scheduled, one by one as their slots become free.
// Once for nothing before, too.
template <class Traits>
__device__ __forceinline__ void load(const ExpertsKernelArgs<Traits>& a, Shared& s,
                                     const Rings<Traits>& rings, int lane) {
  const uint64_t policy = cuda::evict_first_policy();
#pragma unroll 1
  for (int step = -1;; ++step) {
    const bool is_warm_up = step < 0;
    if (step == 0 && (!Traits::kHandsXOver || a.front.x == nullptr)) {
      cuda::wait_for_previous();
      load_record_and_x(a, s, rings, lane);
      __syncwarp();
    }
    if (!is_warm_up) ptx::wait(s.scheduled, static_cast<uint32_t>(step) & 1U);
    const int count = is_warm_up ? 2 : s.num_copies;
    const Copy own = s.copies[lane % Shared::kTogether];
    __syncwarp();  // all lanes have read before the scheduler writes the next ones
    uint64_t& full = s.full[own.group][own.turn];
    uint8_t* const to = rings.base + rings.slot_at(a.plan, own.slot);
    const int slots = own.slot * 2 + own.parity;
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      const int slot = __shfl_sync(cuda::kWholeWarp, slots, i);
      if (!is_warm_up) {
        if (lane == 0 && i == max(0, count - Shared::kAhead)) ptx::arrive(s.taken);
        ptx::wait(s.empty[slot / 2], static_cast<uint32_t>(slot) & 1U);
      }
      if (lane != i || is_warm_up) continue;
      if (own.bytes != 0) {
        ptx::arrive_expecting(full, own.bytes);
        ptx::bulk_copy(to, own.from, own.bytes, full, policy);
      } else {
        ptx::arrive(full);
      }
    }
    if (!is_warm_up && __shfl_sync(cuda::kWholeWarp, own.bytes, 0) == 0) return;
  }
}

}  // namespace octet::sm90
