// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <gtest/gtest.h>
#include <vector>

#include <cuda_runtime.h>

namespace octet::cuda {

// Device memory that holds a copy of `host`.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& host) : bytes_(host.size() * sizeof(T)) {
    EXPECT_EQ(cudaMalloc(&data_, bytes_ + 16), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, host.data(), bytes_, cudaMemcpyHostToDevice), cudaSuccess);
  }
  // Of any content.
  explicit OnDevice(size_t count) : bytes_(count * sizeof(T)) {
    EXPECT_EQ(cudaMalloc(&data_, bytes_ + 16), cudaSuccess);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { cudaFree(data_); }
  T* get() const { return static_cast<T*>(data_); }
  std::vector<T> back() const {
    std::vector<T> host(bytes_ / sizeof(T));
    EXPECT_EQ(cudaMemcpy(host.data(), data_, bytes_, cudaMemcpyDeviceToHost), cudaSuccess);
    return host;
  }

 private:
  size_t bytes_;
  void* data_ = nullptr;
};

}  // namespace octet::cuda
