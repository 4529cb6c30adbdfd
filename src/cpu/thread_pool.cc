// SPDX-License-Identifier: Apache-2.0
#include "cpu/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <pthread.h>
#include <sched.h>
#include <system_error>
#include <thread>
#include <vector>

namespace octet::cpu {

static_assert(kMaxThreads <= kMaxWorkers);

namespace {

int allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  // More CPUs than a cpu_set_t holds.
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// How often a thread that waits gives its processor away before it sleeps: some 60 us where nobody else wants it, which
// bridges the steps of a layer and what an engine does between two. Who slept begins 40 us late in a virtual machine: a layer of
// 10 MB (bench/results/2026-12-01-xeon-480mb-cpu-lost.md) takes 435 us, not 480.
constexpr int kYields = 400;

template <class Ready>
bool yield_until(const Ready& ready) {
  for (int i = 0; i < kYields; ++i) {
    if (ready()) return true;
    std::this_thread::yield();
  }
  return false;
}

// What keeps a worker that sleeps from being woken on the processor of who wakes it. Linux looks for an idle one only while the
// processors that share a cache were not busy lately; else it may queue the worker behind its waker, and leave it there for
// milliseconds although another processor idles: a layer then takes twice as long. So who begins a job takes its own processor
// from the sleepers' masks, and they put it back when they are awake. All under the pool's mutex.
class Seat {
 public:
  void sleep() { is_asleep_ = true; }
  void wake() {
    is_asleep_ = false;
    // A mask that somebody else has set meanwhile stays.
    if (is_barred_ && has(pthread_self(), barred_))
      pthread_setaffinity_np(pthread_self(), sizeof allowed_, &allowed_);
    is_barred_ = false;
  }
  void bar(pthread_t worker, int cpu) {
    if (!is_asleep_) return;
    if (!is_barred_ || !has(worker, barred_)) {
      is_barred_ = false;
      if (pthread_getaffinity_np(worker, sizeof allowed_, &allowed_) != 0) return;
    }
    cpu_set_t rest = allowed_;
    CPU_CLR(cpu, &rest);
    if (CPU_COUNT(&rest) == 0 || (!is_barred_ && !CPU_ISSET(cpu, &allowed_))) return;
    if (pthread_setaffinity_np(worker, sizeof rest, &rest) != 0) return;
    barred_ = rest;
    is_barred_ = true;
  }

 private:
  static bool has(pthread_t thread, const cpu_set_t& mask) {
    cpu_set_t now;
    return pthread_getaffinity_np(thread, sizeof now, &now) == 0 && CPU_EQUAL(&now, &mask) != 0;
  }

  bool is_asleep_ = false, is_barred_ = false;
  cpu_set_t allowed_, barred_;  // while barred: the mask to put back, and the one it has
};

// Of more, some find another processor anyway, and a microsecond for each is too long.
constexpr size_t kMostBarred = 8;

}  // namespace

// One job at a time. Its tasks are taken one by one under `mutex`, by the caller and by whatever worker is awake; the job
// is over when all tasks are, so a worker that the system does not run in time is not waited for: the caller then does
// everything itself, and the worker finds nothing to take. pthreadpool waits for every worker at the end of each step: with
// the processors busy with other programs a layer took twice as long (medians of 24 and 12.5 ms, one row, two threads on
// two processors at a load of 8).
struct ThreadPool::Impl {
  std::mutex turn;   // held by the caller of the job
  std::mutex mutex;  // everything below
  std::condition_variable wake, done;
  std::atomic<uint64_t> job{0};  // counts jobs; written under `mutex`
  std::atomic<int> left{0};      // tasks not yet finished; likewise
  int next = 0, num_tasks = 0;
  void (*task)(void* arg, int index) = nullptr;
  void* arg = nullptr;
  bool stop = false;
  std::vector<std::thread> workers;
  std::vector<Seat> seats;  // of the workers

  void bar_sleepers() {
    const int cpu = sched_getcpu();
    if (cpu < 0 || cpu >= CPU_SETSIZE) return;
    for (size_t i = 0; i < std::min(workers.size(), kMostBarred); ++i)
      seats[i].bar(workers[i].native_handle(), cpu);
  }

  // Runs tasks until none is left to take.
  void take_tasks(std::unique_lock<std::mutex>& lock) {
    while (next < num_tasks) {
      const int index = next++;
      lock.unlock();
      task(arg, index);
      lock.lock();
      if (--left == 0) done.notify_one();
    }
  }

  void work(Seat& seat) {
    uint64_t seen = 0;
    for (;;) {
      yield_until([&] { return job != seen; });
      std::unique_lock<std::mutex> lock(mutex);
      seat.sleep();
      wake.wait(lock, [&] { return stop || job != seen; });
      seat.wake();
      if (stop) return;
      seen = job;
      take_tasks(lock);
    }
  }
};

ThreadPool::ThreadPool(int num_threads) : impl_(std::make_unique<Impl>()) {
  if (num_threads <= 0) num_threads = allowed_cpus();
  Impl* impl = impl_.get();
  const auto num_workers = static_cast<size_t>(num_threads - 1);
  impl->workers.reserve(num_workers);
  impl->seats = std::vector<Seat>(num_workers);
  try {
    for (Seat& seat : impl->seats) impl->workers.emplace_back([impl, &seat] { impl->work(seat); });
  } catch (const std::system_error&) {  // no more threads to be had: those that came are enough
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard<std::mutex> lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->wake.notify_all();
  for (std::thread& worker : impl_->workers) worker.join();
}

int ThreadPool::num_threads() const { return static_cast<int>(impl_->workers.size()) + 1; }

void ThreadPool::run(int num_tasks, void (*task)(void* arg, int index), void* arg) {
  if (impl_->workers.empty() || num_tasks <= 1) {
    for (int i = 0; i < num_tasks; ++i) task(arg, i);
    return;
  }
  const std::lock_guard<std::mutex> turn(impl_->turn);
  std::unique_lock<std::mutex> lock(impl_->mutex);
  impl_->bar_sleepers();
  impl_->task = task;
  impl_->arg = arg;
  impl_->next = 0;
  impl_->num_tasks = num_tasks;
  impl_->left = num_tasks;
  ++impl_->job;
  lock.unlock();
  impl_->wake.notify_all();
  lock.lock();
  impl_->take_tasks(lock);
  lock.unlock();
  if (yield_until([&] { return impl_->left == 0; })) return;
  lock.lock();
  impl_->done.wait(lock, [&] { return impl_->left == 0; });
}

}  // namespace octet::cpu
