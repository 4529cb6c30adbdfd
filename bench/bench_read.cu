// SPDX-License-Identifier: Apache-2.0
// Prints the read ceiling of the device over 7 GB, in GB/s: for reports of programs that can't measure it themselves.
#include <cstdio>

#include "read_ceiling.cuh"

int main() {
  constexpr int64_t kBytes = int64_t{7} << 30;
  uint8_t* memory = nullptr;
  octet::cuda::check(cudaMalloc(&memory, kBytes));
  octet::cuda::check(cudaMemset(memory, 1, kBytes));
  octet::cuda::check(cudaDeviceSynchronize());
  std::printf("%.0f\n", octet::sm90::read_gb_s(memory, kBytes));
  return 0;
}
