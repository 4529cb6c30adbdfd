// SPDX-License-Identifier: Apache-2.0
// The library's own threads. Those that wait yield for some microseconds, then sleep; a sleeping one's affinity mask is made
// narrower by one processor for the moment in which it is woken, and then is as it was (Linux counts it as set by hand from
// then on: it no longer grows with the process's set of processors).
#pragma once

#include <memory>

#include "core/executor.h"

namespace octet::cpu {

constexpr int kMaxThreads = 1024;  // that a caller may ask for

class ThreadPool final : public Executor {
 public:
  // `num_threads` <= 0: as many as the process may run on at once (its affinity mask).
  explicit ThreadPool(int num_threads);
  ~ThreadPool() override;

  int num_threads() const override;
  // Calls from several threads at once take turns.
  void run(int num_tasks, void (*task)(void* arg, int index), void* arg) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace octet::cpu
