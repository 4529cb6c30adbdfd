// SPDX-License-Identifier: Apache-2.0
// For tests: an executor that starts a thread for every task, last task first, and joins them. No pool to warm up.
#pragma once

#include <algorithm>
#include <thread>
#include <vector>

#include "core/executor.h"

namespace octet {

class TestThreads final : public Executor {
 public:
  explicit TestThreads(int num_threads) : num_threads_(num_threads) {}
  int num_threads() const override { return num_threads_; }
  void run(int num_tasks, void (*task)(void* arg, int index), void* arg) override {
    most_tasks = std::max(most_tasks, num_tasks);
    std::vector<std::thread> threads;
    for (int i = num_tasks - 1; i > 0; --i) threads.emplace_back(task, arg, i);
    if (num_tasks > 0) task(arg, 0);
    for (std::thread& t : threads) t.join();
  }
  int most_tasks = 0;  // of the runs so far

 private:
  int num_threads_;
};

}  // namespace octet
