// SPDX-License-Identifier: Apache-2.0
#include "cpu/thread_pool.h"

#include <atomic>
#include <chrono>
#include <ctime>
#include <fstream>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <string>
#include <thread>
#include <unistd.h>
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

// The calling thread on one processor, until the end of the scope.
class Pinned {
 public:
  explicit Pinned(int cpu) : before_(mask_of(pthread_self())) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    EXPECT_EQ(pthread_setaffinity_np(pthread_self(), sizeof one, &one), 0);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() { pthread_setaffinity_np(pthread_self(), sizeof before_, &before_); }

 private:
  cpu_set_t before_;
};

// Whether a thread of this process sleeps, within a second.
bool falls_asleep(pid_t thread) {
  const std::string path = "/proc/self/task/" + std::to_string(thread) + "/stat";
  for (int i = 0; i < 200; ++i) {
    std::string text;
    std::getline(std::ifstream(path), text);
    const size_t name_end = text.rfind(')');
    if (name_end != std::string::npos && text.compare(name_end, 3, ") S") == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

// Both threads of a pool of two, once, at the same time: where the worker was, and where it might have been.
struct Both {
  pthread_t caller = pthread_self();
  std::atomic<int> there{0};
  pid_t worker = 0;
  int worker_cpu = -1;
  cpu_set_t worker_mask;

  explicit Both(ThreadPool& pool) {
    CPU_ZERO(&worker_mask);
    pool.run(
        2, [](void* arg, int) { static_cast<Both*>(arg)->meet(); }, this);
  }
  void meet() {
    if (pthread_equal(caller, pthread_self()) == 0) {
      worker = gettid();
      worker_cpu = sched_getcpu();
      worker_mask = mask_of(pthread_self());
    }
    ++there;
    while (there < 2) std::this_thread::yield();
  }
};

// A worker that sleeps is woken on another processor than its waker's, whichever that is, and may then run anywhere again:
// so a system that is busy may have moved it before it looks.
TEST(ThreadPool, WakesWorkersOnOtherProcessors) {
  const cpu_set_t all = mask_of(pthread_self());
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "one processor";
  ThreadPool pool(2);
  const pid_t worker = Both(pool).worker;
  int rounds = 0, elsewhere = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE && rounds < 40; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    const Pinned pinned(cpu);
    for (int i = 0; i < 5; ++i) {
      if (!falls_asleep(worker)) GTEST_SKIP() << "the worker does not get to sleep";
      const Both both(pool);
      ++rounds;
      elsewhere += both.worker_cpu != cpu ? 1 : 0;
      EXPECT_TRUE(CPU_EQUAL(&both.worker_mask, &all));
    }
  }
  EXPECT_GE(elsewhere * 4, rounds * 3) << "of " << rounds;
}

// What somebody sets is not taken back.
TEST(ThreadPool, LeavesWorkersWhereTheyAreSetToRun) {
  const cpu_set_t all = mask_of(pthread_self());
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "one processor";
  ThreadPool pool(2);
  const pid_t worker = Both(pool).worker;
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = CPU_SETSIZE - 1; CPU_COUNT(&one) == 0; --cpu)
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(worker, sizeof one, &one), 0);
  for (int i = 0; i < 5; ++i) {
    if (!falls_asleep(worker)) GTEST_SKIP() << "the worker does not get to sleep";
    const Both both(pool);
    EXPECT_TRUE(CPU_EQUAL(&both.worker_mask, &one));
  }
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
