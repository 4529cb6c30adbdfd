// SPDX-License-Identifier: Apache-2.0
// The scale of a block of h: semantics.md section 7.
#pragma once

#include <cstdint>

namespace octet::cuda::hidden {

// UE8M0 of a block with this largest magnitude, which is not 0; Inf gives 255.
__device__ __forceinline__ uint32_t scale_code(float amax) {
  const uint32_t v = __float_as_uint(__fmul_rn(amax, __uint_as_float(0x3B124925U)));  // 1 / 448
  const uint32_t e = v >> 23, m = v & 0x7FFFFFU;
  if (e == 0) return m > 0x400000U ? 1U : 0U;
  return min(e + (m != 0 ? 1U : 0U), 255U);
}

}  // namespace octet::cuda::hidden
