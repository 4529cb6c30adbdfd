// SPDX-License-Identifier: Apache-2.0
// Where work runs: the library's own pool (cpu/thread_pool.h), the caller's through a callback
// (octet.h), or the calling thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "core/float_environment.h"

namespace octet {

class Executor {
 public:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  virtual ~Executor() = default;

  // How many tasks run() can have under way at once, at least 1.
  virtual int num_threads() const = 0;
  // task(arg, 0) ... task(arg, num_tasks - 1), each once, on any threads and in any order; returns when all are done.
  virtual void run(int num_tasks, void (*task)(void* arg, int index), void* arg) = 0;
};

// The calling thread alone.
class InlineExecutor final : public Executor {
 public:
  int num_threads() const override { return 1; }
  void run(int num_tasks, void (*task)(void* arg, int index), void* arg) override;
};

// Units that a worker has before it: it takes them from the front, others take from the back. Both bounds are one word,
// so each step is one exchange, and the word is all there is: one that comes back is as good.
class UnitRange {
 public:
  static constexpr int64_t kMostUnits = int64_t{1} << 31;

  void set(int64_t first, int64_t end) {
    bounds_.store(static_cast<uint64_t>(end) << 32 | static_cast<uint64_t>(first),
                  std::memory_order_relaxed);
  }
  struct Taken {
    int64_t unit = -1, next = -1;  // -1: none
  };
  Taken take() {
    uint64_t word = bounds_.load(std::memory_order_relaxed);
    for (;;) {
      const int64_t unit = first_of(word);
      if (unit >= end_of(word)) return {};
      if (bounds_.compare_exchange_weak(word, word + 1, std::memory_order_relaxed))
        return {unit, unit + 1 < end_of(word) ? unit + 1 : -1};
    }
  }
  // Gives the back half to `to`, which is empty and its caller's; false if there is nothing to give.
  bool give_half(UnitRange& to) {
    uint64_t word = bounds_.load(std::memory_order_relaxed);
    for (;;) {
      const int64_t first = first_of(word), end = end_of(word);
      if (first >= end) return false;
      const int64_t cut = first + (end - first) / 2;
      const uint64_t rest = static_cast<uint64_t>(cut) << 32 | static_cast<uint64_t>(first);
      if (!bounds_.compare_exchange_weak(word, rest, std::memory_order_relaxed)) continue;
      to.set(cut, end);
      return true;
    }
  }

 private:
  static int64_t first_of(uint64_t word) { return static_cast<int64_t>(word & 0xFFFFFFFFU); }
  static int64_t end_of(uint64_t word) { return static_cast<int64_t>(word >> 32); }
  std::atomic<uint64_t> bounds_;
};

constexpr int kMaxWorkers = 1024;  // threads that one loop uses at most

// fn(unit, next, worker) for each unit in 0 ... num_units - 1, on up to `executor.num_threads()` workers; no two calls with
// the same worker overlap. Each worker begins with a piece of its own, in ascending order, and takes from the others' when
// that is done; `next` is what it likely takes after this one, or -1. What a unit computes must not depend on its worker:
// that is what makes results the same for every number of threads. Every task computes in FloatEnvironment, whatever its
// thread's own is.
template <class Fn>
void parallel_streams(Executor& executor, int64_t num_units, const Fn& fn) {
  for (int64_t base = 0; base < num_units; base += UnitRange::kMostUnits) {
    struct Job {
      const Fn& fn;
      int64_t base;
      int64_t workers;
      UnitRange ranges[kMaxWorkers];
      bool steal(int64_t worker) {
        for (int64_t i = 1; i < workers; ++i) {
          if (ranges[(worker + i) % workers].give_half(ranges[worker])) return true;
        }
        return false;
      }
    };
    const int64_t units = std::min(num_units - base, UnitRange::kMostUnits);
    const int64_t workers = std::min<int64_t>({units, executor.num_threads(), kMaxWorkers});
    Job job{fn, base, workers, {}};
    for (int64_t w = 0; w < workers; ++w)
      job.ranges[w].set(units * w / workers, units * (w + 1) / workers);
    executor.run(
        static_cast<int>(workers),
        [](void* arg, int worker) {
          const FloatEnvironment environment;
          Job& j = *static_cast<Job*>(arg);
          do {
            for (UnitRange::Taken t = j.ranges[worker].take(); t.unit >= 0;
                 t = j.ranges[worker].take()) {
              j.fn(j.base + t.unit, t.next < 0 ? t.next : j.base + t.next, worker);
            }
          } while (j.steal(worker));
        },
        &job);
  }
}

// The same where what comes next does not matter: fn(unit, worker).
template <class Fn>
void parallel_for(Executor& executor, int64_t num_units, const Fn& fn) {
  parallel_streams(executor, num_units,
                   [&](int64_t unit, int64_t /*next*/, int worker) { fn(unit, worker); });
}

}  // namespace octet
