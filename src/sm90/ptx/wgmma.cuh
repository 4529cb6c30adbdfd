// SPDX-License-Identifier: Apache-2.0
// Products of a warpgroup: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions" (wgmma) and "Matrix
// Descriptor". d [64, 8] = a [64, 32] from registers * b [32, 8] from shared memory, e4m3, f32, without an earlier sum.
//
// Lane 4 g + t of warp w: d[0], d[1] row 16 w + g, columns 2 t, 2 t + 1; d[2], d[3] row 16 w + 8 + g. a[0] row 16 w + g, k 4 t ... + 3;
// a[1] row + 8; a[2], a[3] the same with k + 16.
#pragma once

#include <cstdint>

namespace octet::sm90::ptx {

// No swizzle, K contiguous: a core matrix is 8 columns of b, 16 bytes each, one after the other; the second one, k + 16, begins
// `next_k_bytes` after the first. `address` is in shared memory; both are multiples of 16.
__device__ __forceinline__ uint64_t descriptor(uint32_t address, uint32_t next_k_bytes) {
  const auto unit = [](uint32_t bytes) { return uint64_t{(bytes & 0x3FFFFU) >> 4}; };
  return unit(address) | unit(next_k_bytes) << 16 | unit(128) << 32;
}

// Before the first multiply() on registers that were just written; naming them keeps the compiler from draining in between.
__device__ __forceinline__ void fence_operands(uint32_t (&a)[8]) {
  asm volatile("wgmma.fence.sync.aligned;"
               : "+r"(a[0]), "+r"(a[1]), "+r"(a[2]), "+r"(a[3]), "+r"(a[4]), "+r"(a[5]), "+r"(a[6]),
                 "+r"(a[7]));
}
__device__ __forceinline__ void multiply(float* d, const uint32_t* a, uint64_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, p, 1, "
      "1;\n}"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until at most kPending groups are under way.
template <int kPending>
__device__ __forceinline__ void wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// After wait_group(): the products are here, the operands may be overwritten.
__device__ __forceinline__ void settle(float (&d)[8], uint32_t (&a)[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    asm volatile("" : "+f"(d[i]));
    asm volatile("" : "+r"(a[i]));
  }
}

}  // namespace octet::sm90::ptx
