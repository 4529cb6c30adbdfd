// SPDX-License-Identifier: Apache-2.0
// Launches that host code of ours makes through the CUDA runtime, taken for the simulator: the same host side that runs on a device.
//
//   launch_experts(...) ──► cuda::launch ──► cudaLaunchKernelExC ──┐ the linker's --wrap (CMakeLists.txt)
//                                                                  └──► LaunchQueue: kernel, grid, parameters ──► Device::run_all
//
// The device that host code asks about is one of SM 9.0 with as many multiprocessors as said. Kernels are known by the names that the
// compiler registers them with, but for the part that names the file's anonymous namespace, which differs between two compilations.
#pragma once

#include "sim_device.h"

namespace octet::sim {

// From here on launches go to `device`, until the queue is gone; one at a time.
class LaunchQueue {
 public:
  LaunchQueue(Device& device, int num_sms);
  ~LaunchQueue();
  LaunchQueue(const LaunchQueue&) = delete;
  LaunchQueue& operator=(const LaunchQueue&) = delete;

  const std::vector<ptxsim::machine::Launch>& launches() const { return launches_; }  // not run yet
  // Runs what was launched, in the order of a stream, each with its programmatic edge.
  Status run_all();

 private:
  friend struct LaunchHooks;
  Device& device_;
  int num_sms_;
  Status status_;  // of the launches
  std::vector<ptxsim::machine::Launch> launches_;
};

}  // namespace octet::sim
