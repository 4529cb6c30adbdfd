// SPDX-License-Identifier: Apache-2.0
// kAux of the experts' kernel: quantises x (MXFP8) and clears what the next launch wants clear (experts_front.cuh), then brings h of the tiles that come
// next.
#pragma once

#include "sm90/copy_as_it_comes.cuh"
#include "sm90/experts_front.cuh"
#include "sm90/experts_shared.cuh"
#include "sm90/ptx/mbarrier.cuh"
#include "sm90/ptx/relaxed.cuh"

namespace octet::sm90 {

// Aux warp `warp`: every kAuxWarps-th visit (every one where h has one slot), so that as many round trips to L2 are under way.
template <class Traits>
__device__ __forceinline__ void bring_h(const ExpertsKernelArgs<Traits>& a, Shared& s,
                                        const Rings<Traits>& rings, int warp, int lane) {
  const int step = min(ExpertsRoles::kAuxWarps, a.plan.h_slots);
  if (warp >= step) return;
  for (int visit = warp;; visit += step) {
    ptx::wait(s.visit[visit % Shared::kVisits],
              static_cast<uint32_t>(visit / Shared::kVisits) & 1U);
    const int tile = s.visit_tile[visit % Shared::kVisits];
    if (tile < 0) return;
    const int slot = visit % a.plan.h_slots, turn = visit / a.plan.h_slots;
    if (turn > 0) ptx::wait(s.h_empty[slot], static_cast<uint32_t>(turn - 1) & 1U);
    const int rows = Traits::Record::padded_rows(rows_of(s.tiles[tile]));
    copy_as_it_comes(
        rings.base + rings.h_slot_at(a.plan, slot), s.h + int64_t{tile} * a.plan.h_tile_bytes(),
        a.plan.w2.pairs * static_cast<int>(Traits::Record::bytes(rows)), lane, cuda::kWarp);
    ptx::fence_shared_for_async();
    __syncwarp();
    if (lane == 0) ptx::arrive(s.h_full[visit % Shared::kVisits]);
  }
}

}  // namespace octet::sm90
