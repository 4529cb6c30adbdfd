// SPDX-License-Identifier: Apache-2.0
#include "cpu/thread_pool.h"

#include <algorithm>
#include <mutex>
#include <pthreadpool.h>
#include <sched.h>
#include <thread>

namespace octet::cpu {
namespace {

int allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  // More CPUs than a cpu_set_t holds.
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

struct Job {
  void (*task)(void* arg, int index);
  void* arg;
};

}  // namespace

struct ThreadPool::Impl {
  int num_threads;
  std::mutex mutex;
  pthreadpool_t pool;  // null where the system gave no threads: tasks then run on the caller's
};

ThreadPool::ThreadPool(int num_threads) : impl_(std::make_unique<Impl>()) {
  impl_->num_threads = num_threads > 0 ? num_threads : allowed_cpus();
  impl_->pool = impl_->num_threads > 1 ? pthreadpool_create(static_cast<size_t>(impl_->num_threads))
                                       : nullptr;
  if (impl_->pool == nullptr) impl_->num_threads = 1;
}

ThreadPool::~ThreadPool() {
  if (impl_->pool != nullptr) pthreadpool_destroy(impl_->pool);
}

int ThreadPool::num_threads() const { return impl_->num_threads; }

void ThreadPool::run(int num_tasks, void (*task)(void* arg, int index), void* arg) {
  if (impl_->pool == nullptr || num_tasks <= 1) {
    for (int i = 0; i < num_tasks; ++i) task(arg, i);
    return;
  }
  const std::lock_guard<std::mutex> turn(impl_->mutex);
  Job job{task, arg};
  pthreadpool_parallelize_1d(
      impl_->pool,
      [](void* context, size_t index) {
        const Job& j = *static_cast<const Job*>(context);
        j.task(j.arg, static_cast<int>(index));
      },
      &job, static_cast<size_t>(num_tasks), PTHREADPOOL_FLAG_YIELD_WORKERS);
}

}  // namespace octet::cpu
