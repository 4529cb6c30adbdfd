// SPDX-License-Identifier: Apache-2.0
// The word of workspace by which the CTAs of a launch of the experts' kernel agree, so that no launch before it has to make anything ready.
//
//   63 running | 36..62 tag | 35 ready | 34 half | 28..33 cleared | 16..27 early tickets | 0..15 tickets
//
//   at rest   the size of a half; half: the one of the two that a launch left clear, word by word kNotYet
//   running   tag of the launch (its grid's identifier, PTX ISA "%gridid"); ready: it found a clear half
//
// The first CTA to come turns rest into running (until it has, tickets are counted at rest), the last one to leave running into rest;
// meanwhile each clears its part of the other half for the launch after. Any other word (workspace never used, or by calls of another
// shape, or by a launch that was broken off) is garbage: the first CTA begins anew at half 0, not ready, and early tickets
// 0 ... kClearPieces - 1 clear it before anything is handed over. So it is where the first CTA finds a half that somebody wrote to, in the
// places where it looks. A graph's replays have one identifier for a node, so of broken-off launches one goes unnoticed: if the
// same node comes next.
#pragma once

#include <cstdint>

#include "cuda/warp.cuh"
#include "sm90/work.h"

namespace octet::sm90 {

struct LaunchWord {
  static constexpr uint64_t kTicket = 1, kEarlyTicket = uint64_t{1} << 16,
                            kCleared = uint64_t{1} << 28, kHalf = uint64_t{1} << 34,
                            kReady = uint64_t{1} << 35, kRunning = uint64_t{1} << 63;
  static constexpr int kTagAt = 36;
  static constexpr uint64_t kTagMask = ((uint64_t{1} << 27) - 1) << kTagAt;
  static constexpr uint64_t kTicketMask = kCleared - 1;  // of both
  static constexpr int kMostTickets = 0xFFFF, kMostEarly = 0xFFF, kClearPieces = 32;

  uint64_t bits;
  OCTET_BOTH constexpr int ticket() const { return static_cast<int>(bits & 0xFFFFU); }
  OCTET_BOTH constexpr int early() const { return static_cast<int>(bits >> 16 & 0xFFFU); }
  OCTET_BOTH constexpr int cleared() const { return static_cast<int>(bits >> 28 & 0x3FU); }
  OCTET_BOTH constexpr int half() const { return static_cast<int>(bits >> 34 & 1U); }
  OCTET_BOTH constexpr bool is_ready() const { return (bits & kReady) != 0; }
  // Of a word at rest: where the last launch had its data.
  OCTET_BOTH constexpr int last_half() const { return 1 - half(); }

  OCTET_BOTH static constexpr uint64_t tag_of(uint64_t v) {
    v = (v ^ v >> 33) * 0xff51afd7ed558ccdULL;
    v = (v ^ v >> 33) * 0xc4ceb9fe1a85ec53ULL;
    return (v ^ v >> 33) & kTagMask;
  }
  // half_bytes: a multiple of 256, below 32 GiB.
  OCTET_BOTH static constexpr uint64_t at_rest(int64_t half_bytes, int half) {
    return static_cast<uint64_t>(half_bytes / 256) << kTagAt | (half != 0 ? kHalf : 0);
  }
};

#if defined(__CUDACC__)
__device__ __forceinline__ uint64_t load_word(const uint64_t* p) {
  uint64_t v;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ uint64_t add_to_word(uint64_t* p, uint64_t v) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(p), static_cast<unsigned long long>(v));
}

// A warp of each CTA: the launch begins, or has begun; `take`: tickets that lane 0 takes. What they are, and the launch's state, to all
// lanes. Mostly an addition and a look: the first one at a word at rest looks whether its half is clear and makes it running, the others
// see to it that it does. Who finds garbage, or waits for a second (a launch was broken off between the two), begins anew.
// is_clear(half): by all lanes.
template <class IsClear>
__device__ __forceinline__ LaunchWord enter_launch(uint64_t* word, int64_t half_bytes,
                                                   uint64_t take, int lane,
                                                   const IsClear& is_clear) {
  constexpr uint64_t kWho = LaunchWord::kRunning | LaunchWord::kTagMask;
  constexpr int64_t kMostCycles = int64_t{1} << 31;
  uint64_t grid;
  asm("mov.u64 %0, %%gridid;" : "=l"(grid));
  const uint64_t rest = LaunchWord::at_rest(half_bytes, 0);
  // Begun at rest, and begun anew.
  const uint64_t own = LaunchWord::kRunning | LaunchWord::tag_of(~grid),
                 anew = own ^ (uint64_t{1} << LaunchWord::kTagAt);
  const auto is_running = [&](uint64_t v) { return (v & kWho) == own || (v & kWho) == anew; };
  const auto to_all = [&](uint64_t v) { return LaunchWord{__shfl_sync(cuda::kWholeWarp, v, 0)}; };
  uint64_t taken = lane == 0 ? add_to_word(word, take) : 0;
  taken = to_all(taken).bits;
  if (is_running(taken)) return {taken};
  uint64_t found = 0;
  if ((taken & ~(LaunchWord::kTicketMask | LaunchWord::kHalf)) == rest) {
    if ((taken & LaunchWord::kTicketMask) == 0) {
      const uint64_t begun =
          own | (is_clear(LaunchWord{taken}.half()) ? LaunchWord::kReady : uint64_t{0});
      if (lane == 0) add_to_word(word, begun - rest);
      return {begun | (taken & LaunchWord::kHalf)};
    }
    if (lane == 0) {
      const int64_t begin = clock64();
      do {
        found = load_word(word);
      } while (!is_running(found) && clock64() - begin < kMostCycles);
    }
    found = to_all(found).bits;
    if ((found & kWho) == own)
      return {(found & ~LaunchWord::kTicketMask) | (taken & LaunchWord::kTicketMask)};
  }
  if (lane == 0) {  // the tickets are void
    for (found = load_word(word); !is_running(found);) {
      const uint64_t before = atomicCAS(reinterpret_cast<unsigned long long*>(word),
                                        static_cast<unsigned long long>(found),
                                        static_cast<unsigned long long>(anew + take));
      if (before == found) break;
      found = before;
    }
    found = is_running(found) ? add_to_word(word, take) : anew;
  }
  return to_all(found);
}
#endif

}  // namespace octet::sm90
