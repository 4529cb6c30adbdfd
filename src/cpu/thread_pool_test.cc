// SPDX-License-Identifier: Apache-2.0
#include "cpu/thread_pool.h"

#include <atomic>
#include <chrono>
#include <ctime>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
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

cpu_set_t mask_of(pthread_t thread) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  EXPECT_EQ(pthread_getaffinity_np(thread, sizeof mask, &mask), 0);
  return mask;
}

// A worker that sleeps is woken on another processor than its waker's, whichever that is, and may then run anywhere again.
TEST(ThreadPool, WakesWorkersOnOtherProcessors) {
  const cpu_set_t all = mask_of(pthread_self());
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "one processor";
  ThreadPool pool(2);
  struct Both {
    pthread_t caller = pthread_self();
    std::atomic<int> there{0};
    std::atomic<int> worker_cpu{-1};
    std::atomic<bool> may_run_anywhere{false};
    cpu_set_t all;
  };
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE && seen < 8; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    ++seen;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ASSERT_EQ(pthread_setaffinity_np(pthread_self(), sizeof one, &one), 0);
    for (int round = 0; round < 5; ++round) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the worker goes to sleep
      Both both;
      both.all = all;
      pool.run(
          2,
          [](void* arg, int) {
            Both& b = *static_cast<Both*>(arg);
            if (pthread_equal(b.caller, pthread_self()) == 0) {
              b.worker_cpu = sched_getcpu();
              const cpu_set_t mask = mask_of(pthread_self());
              b.may_run_anywhere = CPU_EQUAL(&mask, &b.all) != 0;
            }
            ++b.there;
            while (b.there < 2) std::this_thread::yield();
          },
          &both);
      EXPECT_NE(both.worker_cpu, cpu);
      EXPECT_TRUE(both.may_run_anywhere);
    }
  }
  EXPECT_EQ(pthread_setaffinity_np(pthread_self(), sizeof all, &all), 0);
}

double process_cpu_seconds() {
  timespec t = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

TEST(ThreadPool, TakesNoProcessorWhenIdle) {
  ThreadPool pool(4);
  parallel_for(pool, 100, [](int64_t, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the workers go to sleep
  const double before = process_cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(process_cpu_seconds() - before, 3e-3) << "of 0.3 s";
}

// Who waits for another's task yields for some microseconds, then sleeps.
TEST(ThreadPool, WaitsWithoutSpinning) {
  constexpr int kRounds = 20;
  constexpr double kMostSeconds =
      1e-3;  // of a round of 15 ms: three threads that wait, and the job itself
  ThreadPool pool(4);
  const double before = process_cpu_seconds();
  for (int i = 0; i < kRounds; ++i) {
    pool.run(
        4,
        [](void*, int task) {
          if (task == 0) std::this_thread::sleep_for(std::chrono::milliseconds(15));
        },
        nullptr);
  }
  EXPECT_LT((process_cpu_seconds() - before) / kRounds, kMostSeconds);
}

}  // namespace
}  // namespace octet::cpu
