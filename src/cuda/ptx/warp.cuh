// SPDX-License-Identifier: Apache-2.0
// One thread for a warp: PTX ISA 9.7.13.14 (elect.sync).
#pragma once

#include <cstdint>

namespace octet::cuda::ptx {

// True in one thread of the warp, always the same. All 32 come here.
__device__ __forceinline__ bool elect_one() {
  uint32_t is_elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xFFFFFFFF;\nselp.b32 %0, 1, 0, p;\n}"
               : "=r"(is_elected)::"memory");
  return is_elected != 0;
}

}  // namespace octet::cuda::ptx
