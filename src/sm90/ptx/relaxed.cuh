// SPDX-License-Identifier: Apache-2.0
// Values that CTAs hand to each other as they come: PTX ISA, "Memory Consistency Model", relaxed operations at gpu scope. A 32-bit word is
// there or it is not; who waits knows by a value that no word has.
#pragma once

#include <cstdint>
#include <cstdio>

namespace octet::sm90::ptx {

constexpr uint32_t kNotYet = 0xFFFFFFFFU;

__device__ __forceinline__ uint4 load_relaxed(const void* p) {
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p)
               : "memory");
  return v;
}
__device__ __forceinline__ uint2 load_relaxed_8(const void* p) {
  uint2 v;
  asm volatile("ld.relaxed.gpu.global.v2.u32 {%0,%1}, [%2];"
               : "=r"(v.x), "=r"(v.y)
               : "l"(p)
               : "memory");
  return v;
}
__device__ __forceinline__ void store_relaxed(void* p, uint2 v) {
  asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1,%2};" ::"l"(p), "r"(v.x), "r"(v.y)
               : "memory");
}
__device__ __forceinline__ void store_relaxed(void* p, uint32_t v) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ bool is_there(const uint4& v) {
  return v.x != kNotYet && v.y != kNotYet && v.z != kNotYet && v.w != kNotYet;
}
__device__ __forceinline__ bool is_there(const uint2& v) {
  return v.x != kNotYet && v.y != kNotYet;
}
// What generic stores wrote to shared memory, tensor cores may read: PTX ISA, "Async proxy".
__device__ __forceinline__ void fence_shared_for_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Builds without NDEBUG stop with a sentence instead of asking for ever.
class Watchdog {
 public:
  __device__ __forceinline__ void check([[maybe_unused]] const char* what) {
#ifndef NDEBUG
    constexpr int64_t kMostCycles = int64_t{1} << 34;  // some nine seconds
    if (begin_ == 0) begin_ = clock64();
    if (clock64() - begin_ < kMostCycles) return;
    printf("octet: block %d thread %d waits for ever for %s\n", static_cast<int>(blockIdx.x),
           static_cast<int>(threadIdx.x), what);
    __trap();
#endif
  }

 private:
#ifndef NDEBUG
  int64_t begin_ = 0;
#endif
};

}  // namespace octet::sm90::ptx
