// SPDX-License-Identifier: Apache-2.0
// What other CTAs hand over by value (ptx/relaxed.cuh), to shared memory.
#pragma once

#include <cstdint>

#include "sm90/ptx/relaxed.cuh"

namespace octet::sm90 {

// `bytes`, a multiple of 16, as they come, part `thread` of `threads`: all is asked for at once, and what is not there again. A round trip
// to L2 beside the weights takes a microsecond, so that asking first and reading then would cost another.
__device__ __forceinline__ void copy_as_it_comes(uint8_t* to, const uint8_t* from, int bytes,
                                                 int thread, int threads) {
  constexpr int kAtOnce = 6;
  const int step = threads * 16;
  for (int at = thread * 16; at < bytes; at += kAtOnce * step) {
    unsigned missing = 0;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) missing |= at + i * step < bytes ? 1U << i : 0U;
    ptx::Watchdog watchdog;
    while (missing != 0) {
      uint4 v[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if ((missing >> i & 1) != 0) v[i] = ptx::load_relaxed(from + at + i * step);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if ((missing >> i & 1) == 0 || !ptx::is_there(v[i])) continue;
        *reinterpret_cast<uint4*>(to + at + i * step) = v[i];
        missing &= ~(1U << i);
      }
      if (missing != 0) __nanosleep(100);
      watchdog.check("what another CTA hands over");
    }
  }
}

}  // namespace octet::sm90
