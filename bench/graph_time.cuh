// SPDX-License-Identifier: Apache-2.0
// What kernels of a chain take: replays of a graph of 48 launches in a row, each with programmatic edges to the one before, after 15 ms
// of idling (the clock is at its highest then), or one after another; least and median of 21 replays.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include <cuda_runtime.h>

#include "octet/status.hpp"

namespace octet::cuda {

constexpr int kLaunches = 48, kReplays = 21;

inline void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}
inline void check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.why.c_str());
  std::exit(1);
}

template <class T>
T* on_device(const std::vector<T>& host) {
  T* p = nullptr;
  check(cudaMalloc(&p, host.size() * sizeof(T)));
  check(cudaMemcpy(p, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  return p;
}
template <class T>
T* on_device(int64_t count) {
  return on_device(std::vector<T>(static_cast<size_t>(count)));
}

// Microseconds a launch.
struct Times {
  double least, median;
};
inline Times time_of(const std::function<void(cudaStream_t, int)>& once, int idle_ms = 15) {
  cudaStream_t stream;
  check(cudaStreamCreate(&stream));
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < kLaunches; ++i) once(stream, i);
  cudaGraph_t graph;
  check(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec;
  check(cudaGraphInstantiate(&exec, graph, 0));
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  std::vector<double> us;
  for (int i = 0; i < kReplays; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(idle_ms));
    check(cudaEventRecord(begin, stream));
    check(cudaGraphLaunch(exec, stream));
    check(cudaEventRecord(end, stream));
    check(cudaEventSynchronize(end));
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end));
    us.push_back(static_cast<double>(ms) * 1e3 / kLaunches);
  }
  check(cudaGraphExecDestroy(exec));
  check(cudaGraphDestroy(graph));
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  check(cudaStreamDestroy(stream));
  std::sort(us.begin(), us.end());
  return {us.front(), us[us.size() / 2]};
}

}  // namespace octet::cuda
