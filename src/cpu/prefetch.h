// SPDX-License-Identifier: Apache-2.0
// Asking for weights before they are used.
#pragma once

#include <cstdint>

#include "cpu/unroll.h"

namespace octet::cpu {

// How far ahead of use a line is asked for, into the second-level cache: the first has too few miss buffers for a core's share of
// the memory. Measured: bench/results/2026-11-30-epyc-genoa-cpu-lost.md.
constexpr int64_t kPrefetchBytes = 6144;
constexpr int64_t kLineBytes = 64;

OCTET_INLINE void prefetch_line(uintptr_t at) {
  __builtin_prefetch(reinterpret_cast<const void*>(at), 0, 2);
}

}  // namespace octet::cpu
