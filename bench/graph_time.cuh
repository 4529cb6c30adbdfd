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
class Graph {
 public:
  explicit Graph(const std::function<void(cudaStream_t)>& fill) {
    check(cudaStreamCreate(&stream_));
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
    fill(stream_);
    cudaGraph_t graph;
    check(cudaStreamEndCapture(stream_, &graph));
    check(cudaGraphInstantiate(&exec_, graph, 0));
    check(cudaGraphDestroy(graph));
    check(cudaEventCreate(&begin_));
    check(cudaEventCreate(&end_));
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() {
    cudaEventDestroy(end_);
    cudaEventDestroy(begin_);
    cudaGraphExecDestroy(exec_);
    cudaStreamDestroy(stream_);
  }
  // Of `launches` a replay.
  Times time(int replays, int idle_ms, int launches) {
    std::vector<double> us;
    for (int i = 0; i < replays; ++i) {
      if (idle_ms != 0) std::this_thread::sleep_for(std::chrono::milliseconds(idle_ms));
      check(cudaEventRecord(begin_, stream_));
      check(cudaGraphLaunch(exec_, stream_));
      check(cudaEventRecord(end_, stream_));
      check(cudaEventSynchronize(end_));
      float ms = 0;
      check(cudaEventElapsedTime(&ms, begin_, end_));
      us.push_back(static_cast<double>(ms) * 1e3 / launches);
    }
    std::sort(us.begin(), us.end());
    return {us.front(), us[us.size() / 2]};
  }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t exec_;
  cudaEvent_t begin_, end_;
};

inline Times time_of(const std::function<void(cudaStream_t, int)>& once, int idle_ms = 15) {
  Graph graph([&](cudaStream_t stream) {
    for (int i = 0; i < kLaunches; ++i) once(stream, i);
  });
  return graph.time(kReplays, idle_ms, kLaunches);
}

}  // namespace octet::cuda
