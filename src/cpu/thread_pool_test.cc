// SPDX-License-Identifier: Apache-2.0
#include "cpu/thread_pool.h"

#include <atomic>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

namespace octet::cpu {
namespace {

TEST(ThreadPool, RunsEachTaskOnce) {
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.num_threads(), threads);
    for (const int tasks : {0, 1, 2, 7, 100}) {
      std::vector<std::atomic<int>> ran(static_cast<size_t>(tasks));
      pool.run(
          tasks,
          [](void* arg, int i) { ++(*static_cast<decltype(ran)*>(arg))[static_cast<size_t>(i)]; },
          &ran);
      for (const auto& count : ran) EXPECT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, TakesTheProcessesProcessorsByDefault) {
  EXPECT_GE(ThreadPool(0).num_threads(), 1);
  EXPECT_EQ(ThreadPool(0).num_threads(), ThreadPool(-1).num_threads());
}

TEST(ThreadPool, LetsCallersTakeTurns) {
  ThreadPool pool(2);
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 3; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round)
        parallel_for(pool, 10, [&](int64_t unit, int) { sum += unit; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 3 * 200 * 45);
}

TEST(ThreadPool, NeverOverlapsCallsOfOneWorker) {
  ThreadPool pool(3);
  std::vector<std::atomic<int>> busy(3);
  std::atomic<bool> overlap{false};
  parallel_for(pool, 1000, [&](int64_t, int worker) {
    if (busy[static_cast<size_t>(worker)].fetch_add(1) != 0) overlap = true;
    std::this_thread::yield();
    --busy[static_cast<size_t>(worker)];
  });
  EXPECT_FALSE(overlap);
}

}  // namespace
}  // namespace octet::cpu
