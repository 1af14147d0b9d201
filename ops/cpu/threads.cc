// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "cpu/threads.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

namespace mindspore_relay {
namespace {

// How long a worker looks for the next job before it sleeps, without the cost of a wake-up (30 to
// 60 us); short enough not to take time from a framework's threads.
constexpr std::chrono::microseconds kSpinTime(20);

// How long an operator's threads wait for each other before they sleep, letting others run: a piece
// of work takes about as long, and two wake-ups.
constexpr std::chrono::microseconds kYieldTime(200);

// Looks whether is_done() for kSpinTime and then, if is_patient, between calls of sched_yield for
// kYieldTime. Returns whether it is.
template <typename Condition>
bool SpinUntil(const Condition &is_done, bool is_patient) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    if (is_done()) return true;
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited < kSpinTime) continue;
    if (!is_patient || waited > kYieldTime) return false;
    sched_yield();
  }
}

// Between two questions to an InterruptFunction. A Python program that answers takes its
// interpreter lock for it, which may last 5 ms; a person who interrupts does not notice a tenth of
// a second.
constexpr std::chrono::milliseconds kInterruptTime(100);

// Of the job that this thread runs; nullptr: it cannot be interrupted.
thread_local InterruptScope::State *interrupt = nullptr;
// This thread runs a job of the pool as its caller.
thread_local bool is_calling = false;

int32_t CountUsableCpus() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0) return std::max(1, CPU_COUNT(&cpus));
  return std::max(1, static_cast<int32_t>(std::thread::hardware_concurrency()));
}

int32_t DefaultNumThreads() {
  if (const char *text = std::getenv("MINDSPORE_RELAY_NUM_THREADS")) {
    char *end = nullptr;
    const long value = std::strtol(text, &end, 10);
    if (end != text && *end == '\0' && value >= 1 && value <= kMaxThreads)
      return static_cast<int32_t>(value);
  }
  return std::min(CountUsableCpus(), kMaxThreads);
}

std::atomic<int32_t> &NumThreadsSetting() {
  static std::atomic<int32_t> num_threads{DefaultNumThreads()};
  return num_threads;
}

// Sets the default floating-point environment of this thread; the destructor restores the one
// before. Some callers' threads treat subnormal numbers as zero (those on which MindSpore runs
// graphs do, those of its PyNative mode do not), others round in another direction; results must
// have the same bits on all. A small float16 is subnormal.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() { std::fesetenv(&before_); }
  DefaultFloatEnvironment(const DefaultFloatEnvironment &) = delete;
  DefaultFloatEnvironment &operator=(const DefaultFloatEnvironment &) = delete;

 private:
  std::fenv_t before_;
};

class Pool {
 public:
  // False, with nothing done, when another thread's job is running.
  bool TryRun(int64_t num_tasks, int32_t num_threads, TaskFunction task, void *context,
              bool is_followed) {
    if (is_calling) return false;  // an InterruptFunction may run operators
    std::unique_lock<std::mutex> job_lock(job_mutex_, std::try_to_lock);
    if (!job_lock.owns_lock()) return false;
    is_calling = true;
    const int32_t num_workers = EnsureWorkers(num_threads - 1);
    next_task_.store(0, std::memory_order_relaxed);
    num_tasks_ = num_tasks;
    num_threads_ = num_workers + 1;
    task_ = task;
    context_ = context;
    interrupt_ = interrupt;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      num_wanted_ = num_workers;
      is_open_ = true;
      is_followed_ = is_followed;
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    RunTasks(0);
    WaitForWorkers();
    is_calling = false;
    return true;
  }

  // Starts missing workers; returns how many of the wanted ones exist (a system without threads to
  // give is no error). May run beside a job: a worker begins with the generation after the one that
  // it was born in, and a job that counts it has not published its generation yet.
  int32_t EnsureWorkers(int32_t wanted) {
    if (num_started_.load(std::memory_order_acquire) >= wanted) return wanted;
    std::lock_guard<std::mutex> lock(start_mutex_);
    int32_t num_started = num_started_.load(std::memory_order_relaxed);
    while (num_started < wanted) {
      try {
        workers_.emplace_back(&Pool::WorkerLoop, this, num_started + 1, generation_.load());
      } catch (const std::exception &) {  // no thread, or no memory for one
        break;
      }
      num_started_.store(++num_started, std::memory_order_release);
    }
    return std::min(wanted, num_started);
  }

  // Waits for the job that runs, then ends the workers.
  void StopWorkers() {
    std::lock_guard<std::mutex> job_lock(job_mutex_);
    std::lock_guard<std::mutex> start_lock(start_mutex_);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      is_stopping_ = true;
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    for (std::thread &worker : workers_) worker.join();
    workers_.clear();
    num_started_.store(0, std::memory_order_release);
    std::lock_guard<std::mutex> lock(mutex_);
    is_stopping_ = false;
  }

 private:
  // A task is taken before the one before it is run, so that this one can fetch what it will read;
  // but not the last tasks, one for each thread: nobody keeps one that another thread could begin.
  void RunTasks(int32_t worker) {
    int64_t index = next_task_.fetch_add(1, std::memory_order_relaxed);
    while (index < num_tasks_ && !Interrupted()) {
      const int64_t free_task = next_task_.load(std::memory_order_relaxed);
      const bool is_taken = free_task + num_threads_ < num_tasks_;
      const int64_t next =
          is_taken ? next_task_.fetch_add(1, std::memory_order_relaxed) : free_task;
      task_(context_, {index, next < num_tasks_ ? next : -1, worker});
      index = is_taken ? next : next_task_.fetch_add(1, std::memory_order_relaxed);
    }
  }

  // No task is left: closes the job to workers that still sleep, and waits for those that have
  // begun.
  void WaitForWorkers() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      is_open_ = false;
    }
    const auto is_done = [this] { return num_active_.load(std::memory_order_acquire) == 0; };
    if (SpinUntil(is_done, /*is_patient=*/true)) return;
    std::unique_lock<std::mutex> lock(mutex_);
    while (!is_done()) {
      if (interrupt == nullptr) {
        done_.wait(lock, is_done);
      } else if (!done_.wait_for(lock, kInterruptTime, is_done)) {
        lock.unlock();
        Interrupted();  // asks; workers see the answer
        lock.lock();
      }
    }
  }

  // Waits for a generation other than `seen`, which comes soon if is_followed.
  void WaitForJob(uint64_t seen, bool is_followed) {
    const auto has_come = [&] { return generation_.load(std::memory_order_acquire) != seen; };
    if (SpinUntil(has_come, is_followed)) return;
    std::unique_lock<std::mutex> lock(mutex_);
    wake_.wait(lock, has_come);
  }

  void WorkerLoop(int32_t worker, uint64_t seen) {
    std::fesetenv(FE_DFL_ENV);  // a thread is born with the environment of the one that starts it
    bool is_followed = false;
    for (;;) {
      WaitForJob(seen, is_followed);
      {
        // All are read under the lock that published them: a worker that comes late must not take a
        // newer job's num_wanted_ for an older generation and then run that job twice.
        std::lock_guard<std::mutex> lock(mutex_);
        seen = generation_.load(std::memory_order_acquire);
        if (is_stopping_) return;
        is_followed = is_followed_ && worker <= num_wanted_;
        if (!is_open_ || worker > num_wanted_) continue;
        num_active_.fetch_add(1, std::memory_order_relaxed);
      }
      interrupt = interrupt_;
      RunTasks(worker);
      if (num_active_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        std::lock_guard<std::mutex> lock(mutex_);
        done_.notify_one();
      }
    }
  }

  std::mutex job_mutex_;    // held by the caller whose job runs
  std::mutex start_mutex_;  // held by the caller who starts or stops workers
  std::vector<std::thread> workers_;
  std::atomic<int32_t> num_started_{0};

  std::mutex mutex_;  // for the two condition variables and what stands up to is_stopping_
  std::condition_variable wake_;
  std::condition_variable done_;
  int32_t num_wanted_ = 0;
  bool is_open_ = false;      // a worker may still begin with the job
  bool is_followed_ = false;  // another job comes as soon as it is done
  bool is_stopping_ = false;
  std::atomic<uint64_t> generation_{0};
  std::atomic<int32_t> num_active_{0};

  std::atomic<int64_t> next_task_{0};
  int64_t num_tasks_ = 0;
  int32_t num_threads_ = 0;
  TaskFunction task_ = nullptr;
  void *context_ = nullptr;
  InterruptScope::State *interrupt_ = nullptr;
};

// Never destroyed: workers may outlive static destructors. After a fork the child has no workers,
// and mutexes of the parent's pool may be locked for ever, so the child begins with a new pool.
std::atomic<Pool *> global_pool{nullptr};

Pool *GetPool() {
  static const int registered = pthread_atfork(
      nullptr, nullptr, [] { global_pool.store(nullptr, std::memory_order_release); });
  (void)registered;
  Pool *pool = global_pool.load(std::memory_order_acquire);
  if (pool != nullptr) return pool;
  Pool *created = new (std::nothrow) Pool();
  if (created == nullptr) return nullptr;
  if (global_pool.compare_exchange_strong(pool, created)) return created;
  delete created;
  return pool;
}

}  // namespace

int32_t GetNumThreads() { return NumThreadsSetting().load(std::memory_order_relaxed); }

bool SetNumThreads(int32_t num_threads) {
  if (num_threads < 1 || num_threads > kMaxThreads) return false;
  NumThreadsSetting().store(num_threads, std::memory_order_relaxed);
  return true;
}

void StartThreads(int32_t num_threads) {
  if (num_threads <= 1) return;
  Pool *pool = GetPool();
  if (pool != nullptr) pool->EnsureWorkers(std::min(num_threads, kMaxThreads) - 1);
}

bool StopThreads() {
  if (is_calling) return false;
  Pool *pool = global_pool.load(std::memory_order_acquire);
  if (pool != nullptr) pool->StopWorkers();
  return true;
}

InterruptScope::InterruptScope(InterruptFunction is_interrupted, void *argument)
    : state_{is_interrupted, argument, std::this_thread::get_id(), {}}, before_(interrupt) {
  interrupt = nullptr;
  if (is_interrupted == nullptr) return;
  state_.next_question = std::chrono::steady_clock::now() + kInterruptTime;
  interrupt = &state_;
}

InterruptScope::~InterruptScope() { interrupt = before_; }

bool Interrupted() {
  if (interrupt == nullptr) return false;
  if (interrupt->is_over.load(std::memory_order_relaxed)) return true;
  if (interrupt->owner != std::this_thread::get_id()) return false;
  if (std::chrono::steady_clock::now() < interrupt->next_question) return false;
  // What the function itself runs must not ask it again.
  InterruptScope::State *const asked = interrupt;
  interrupt = nullptr;
  const bool is_over = asked->is_interrupted(asked->argument) != 0;
  interrupt = asked;
  asked->is_over.store(is_over, std::memory_order_relaxed);
  asked->next_question = std::chrono::steady_clock::now() + kInterruptTime;
  return is_over;
}

void ParallelFor(int64_t num_tasks, int32_t max_threads, TaskFunction task, void *context,
                 bool is_followed) {
  const DefaultFloatEnvironment environment;
  const int64_t num_threads = std::min<int64_t>({num_tasks, max_threads, kMaxThreads});
  if (num_threads > 1) {
    Pool *pool = GetPool();
    if (pool != nullptr &&
        pool->TryRun(num_tasks, static_cast<int32_t>(num_threads), task, context, is_followed))
      return;
  }
  for (int64_t index = 0; index < num_tasks && !Interrupted(); ++index) {
    task(context, {index, index + 1 < num_tasks ? index + 1 : -1, 0});
  }
}

}  // namespace mindspore_relay
