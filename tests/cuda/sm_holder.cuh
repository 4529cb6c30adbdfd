// SPDX-License-Identifier: Apache-2.0
// Holds SMs with all of their shared memory, for a while or until they are let go, so that a CTA of the layer finds no room there.
#pragma once

#include <cstdint>

#include "decode_call.cuh"

namespace octet::sm90 {

struct HoldArgs {
  const volatile int* release;  // host memory
  int* arrived;
  uint64_t most_ns;
};
__device__ inline uint64_t now_ns() {
  uint64_t t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}
static __global__ void hold(const __grid_constant__ HoldArgs a) {
  atomicAdd_system(a.arrived, 1);
  const uint64_t begin = now_ns();
  while (*a.release == 0 && now_ns() - begin < a.most_ns) __nanosleep(500);
}

class SmHolder {
 public:
  SmHolder() {
    expect_ok(cudaHostAlloc(&host_, 2 * sizeof(int), cudaHostAllocMapped));
    int device = 0;
    expect_ok(cudaGetDevice(&device));
    expect_ok(cudaDeviceGetAttribute(&bytes_, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    expect_ok(cudaFuncSetAttribute(hold, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes_));
  }
  SmHolder(const SmHolder&) = delete;
  SmHolder& operator=(const SmHolder&) = delete;
  ~SmHolder() { cudaFreeHost(host_); }

  // Returns once they are held, unless `waits` is false.
  void take(int sms, uint64_t most_ns, bool waits = true) {
    volatile int* const at = host_;
    at[0] = 0;
    at[1] = 0;
    hold<<<static_cast<unsigned>(sms), 1, size_of(bytes_), stream_>>>({host_, host_ + 1, most_ns});
    expect_ok(cudaGetLastError());
    while (waits && at[1] != sms && cudaStreamQuery(stream_) == cudaErrorNotReady) {
    }
    if (waits) EXPECT_EQ(at[1], sms) << "SMs held";
  }
  void let_go() {
    *static_cast<volatile int*>(host_) = 1;
    finish(stream_, "holder");
  }
  bool holds() const { return cudaStreamQuery(stream_) == cudaErrorNotReady; }

 private:
  int* host_ = nullptr;  // release, arrived
  int bytes_ = 0;
  Stream stream_;
};

}  // namespace octet::sm90
