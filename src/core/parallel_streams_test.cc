// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "core/executor.h"
#include "core/test_threads.h"

namespace octet {
namespace {

// One task after the other, first or last first.
class SerialExecutor final : public Executor {
 public:
  SerialExecutor(int num_threads, bool is_reverse)
      : num_threads_(num_threads), is_reverse_(is_reverse) {}
  int num_threads() const override { return num_threads_; }
  void run(int num_tasks, void (*task)(void* arg, int index), void* arg) override {
    for (int i = 0; i < num_tasks; ++i) task(arg, is_reverse_ ? num_tasks - 1 - i : i);
  }

 private:
  int num_threads_;
  bool is_reverse_;
};

struct Call {
  int64_t unit, next, worker;
};

std::vector<Call> calls_of(Executor& executor, int64_t num_units) {
  std::mutex mutex;
  std::vector<Call> calls;
  parallel_streams(executor, num_units, [&](int64_t unit, int64_t next, int64_t worker) {
    const std::lock_guard lock(mutex);
    calls.push_back({unit, next, worker});
  });
  return calls;
}

void expect_each_once(const std::vector<Call>& calls, int64_t num_units, int num_threads) {
  std::vector<int64_t> units, all(static_cast<size_t>(num_units));
  std::iota(all.begin(), all.end(), 0);
  for (const Call& c : calls) {
    units.push_back(c.unit);
    EXPECT_TRUE(c.next == c.unit + 1 || c.next == -1) << c.next << " after " << c.unit;
    EXPECT_LT(c.next, num_units);
    EXPECT_GE(c.worker, 0);
    EXPECT_LT(c.worker, std::min<int64_t>(num_threads, num_units));
  }
  std::sort(units.begin(), units.end());
  EXPECT_EQ(units, all) << num_threads << " threads";
}

constexpr int64_t kUnits[] = {0, 1, 2, 3, 5, 8, 9, 17, 100, 1000};

TEST(ParallelStreams, HandsOutEachUnitOnce) {
  for (int threads = 1; threads <= 9; ++threads) {
    for (const int64_t units : kUnits) {
      TestThreads executor(threads);
      expect_each_once(calls_of(executor, units), units, threads);
      EXPECT_EQ(executor.most_tasks, std::min<int64_t>(threads, units));
    }
  }
}

TEST(ParallelStreams, HandsOutEachUnitOnceWhereTasksRunOneAfterTheOther) {
  for (int threads = 1; threads <= 9; ++threads) {
    for (const int64_t units : kUnits) {
      for (const bool is_reverse : {false, true}) {
        SerialExecutor executor(threads, is_reverse);
        expect_each_once(calls_of(executor, units), units, threads);
      }
    }
  }
}

// The calling thread alone: in order, and each unit knows the next.
TEST(ParallelStreams, OneWorkerGoesFromTheFirstToTheLast) {
  InlineExecutor executor;
  const std::vector<Call> calls = calls_of(executor, 100);
  ASSERT_EQ(calls.size(), 100U);
  for (int64_t i = 0; i < 100; ++i) {
    const Call& c = calls[static_cast<size_t>(i)];
    EXPECT_EQ(c.unit, i);
    EXPECT_EQ(c.next, i == 99 ? -1 : i + 1);
    EXPECT_EQ(c.worker, 0);
  }
}

// Nobody takes from a worker that alone runs: where `next` is named, it comes next.
TEST(ParallelStreams, WhatComesNextIsWhatWasNamed) {
  SerialExecutor executor(5, /*is_reverse=*/true);
  const std::vector<Call> calls = calls_of(executor, 123);
  int64_t named = 0;
  for (size_t i = 0; i + 1 < calls.size(); ++i) {
    if (calls[i].next < 0) continue;
    ++named;
    EXPECT_EQ(calls[i + 1].unit, calls[i].next);
  }
  EXPECT_GT(named, 80);
}

// Unit 0, which begins first, returns only once all others have: those behind it in its worker's own piece too.
TEST(ParallelStreams, OthersTakeWhatAWaitingWorkerHasLeft) {
  for (const int threads : {2, 3, 8}) {
    constexpr int64_t kNumUnits = 100;
    TestThreads executor(threads);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    const auto wait_for = [&](const auto& is_so) {
      while (!is_so() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
      EXPECT_TRUE(is_so()) << threads << " threads";
    };
    std::atomic<bool> has_begun{false};
    std::atomic<int64_t> done{0};
    std::vector<int64_t> worker_of(kNumUnits, -1);
    parallel_streams(executor, kNumUnits, [&](int64_t unit, int64_t /*next*/, int64_t worker) {
      worker_of[static_cast<size_t>(unit)] = worker;
      if (unit == 0) {
        has_begun = true;
        wait_for([&] { return done == kNumUnits - 1; });
      } else {
        wait_for([&] { return has_begun.load(); });
        ++done;
      }
    });
    EXPECT_EQ(std::count(worker_of.begin(), worker_of.end(), worker_of[0]), 1)
        << threads << " threads";
  }
}

TEST(ParallelStreams, ParallelForHandsOutTheSame) {
  TestThreads executor(4);
  std::vector<std::atomic<int>> times(50);
  parallel_for(executor, 50,
               [&](int64_t unit, int /*worker*/) { ++times[static_cast<size_t>(unit)]; });
  for (const auto& t : times) EXPECT_EQ(t, 1);
}

// ---- UnitRange

TEST(UnitRange, IsTakenFromTheFrontAndGivenFromTheBack) {
  UnitRange mine, other;
  mine.set(10, 17);
  EXPECT_EQ(mine.take().unit, 10);
  ASSERT_TRUE(mine.give_half(other));  // of 11 ... 16
  for (const int64_t unit : {11, 12, 13}) {
    const UnitRange::Taken t = mine.take();
    EXPECT_EQ(t.unit, unit);
    EXPECT_EQ(t.next, unit == 13 ? -1 : unit + 1);
  }
  EXPECT_EQ(mine.take().unit, -1);
  for (const int64_t unit : {14, 15, 16}) EXPECT_EQ(other.take().unit, unit);
  EXPECT_EQ(other.take().unit, -1);
  EXPECT_FALSE(mine.give_half(other));
}

TEST(UnitRange, GivesItsLastUnitWhole) {
  UnitRange mine, other;
  mine.set(UnitRange::kMostUnits - 1, UnitRange::kMostUnits);
  ASSERT_TRUE(mine.give_half(other));
  EXPECT_EQ(mine.take().unit, -1);
  EXPECT_EQ(other.take().unit, UnitRange::kMostUnits - 1);
}

}  // namespace
}  // namespace octet
