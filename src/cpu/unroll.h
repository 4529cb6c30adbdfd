// SPDX-License-Identifier: Apache-2.0
// For kernels whose sums must stay in registers.
#pragma once

// The compilers' own judgement would call a block's code as a function, with its sums in memory.
#define OCTET_INLINE inline __attribute__((always_inline))
// Of loops over a few registers: whole.
#ifdef __clang__
#define OCTET_UNROLL _Pragma("unroll")
#else
#define OCTET_UNROLL _Pragma("GCC unroll 16")
#endif
