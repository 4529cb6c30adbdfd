// SPDX-License-Identifier: Apache-2.0
// Where work runs: the library's own pool (cpu/thread_pool.h), the caller's through a callback
// (octet.h), or the calling thread.
#pragma once

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

// fn(unit, worker) for each unit in 0 ... num_units - 1; units are handed out one at a time in ascending order to
// `executor.num_threads()` workers, and no two calls with the same worker overlap. What a unit computes must not
// depend on its worker: that is what makes results the same for every number of threads. Every task computes in
// FloatEnvironment, whatever its thread's own is.
template <class Fn>
void parallel_for(Executor& executor, int64_t num_units, const Fn& fn) {
  struct Job {
    const Fn& fn;
    int64_t num_units;
    std::atomic<int64_t> next{0};
  } job{fn, num_units};
  const int64_t workers = num_units < executor.num_threads() ? num_units : executor.num_threads();
  if (workers <= 0) return;
  executor.run(
      static_cast<int>(workers),
      [](void* arg, int worker) {
        const FloatEnvironment environment;
        Job& j = *static_cast<Job*>(arg);
        for (;;) {
          const int64_t unit = j.next.fetch_add(1, std::memory_order_relaxed);
          if (unit >= j.num_units) return;
          j.fn(unit, worker);
        }
      },
      &job);
}

}  // namespace octet
