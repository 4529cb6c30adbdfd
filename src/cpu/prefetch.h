// SPDX-License-Identifier: Apache-2.0
// Asking for weights before they are used.
#pragma once

#include <cstdint>

#include "cpu/panel_dot.h"
#include "cpu/unroll.h"

namespace octet::cpu {

constexpr int64_t kLineBytes = 64;

OCTET_INLINE void prefetch_line(uintptr_t at, bool into_first) {
  if (into_first) {
    __builtin_prefetch(reinterpret_cast<const void*>(at), 0, 3);
  } else {
    __builtin_prefetch(reinterpret_cast<const void*>(at), 0, 2);
  }
}

// Where the stream is `ahead.bytes` later: an address that may lie in no object.
OCTET_INLINE uintptr_t later(const uint8_t* at, const Ahead& ahead) {
  const uintptr_t next = reinterpret_cast<uintptr_t>(at) + static_cast<uintptr_t>(ahead.bytes);
  return next >= reinterpret_cast<uintptr_t>(ahead.end) ? next + static_cast<uintptr_t>(ahead.jump)
                                                        : next;
}

}  // namespace octet::cpu
