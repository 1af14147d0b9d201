// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The process-wide pool of worker threads.
//
// Workers sleep when idle: with a framework's own spinning queues beside them, spinning workers
// made a 150 us loop take milliseconds. The caller takes part. A call that finds the pool busy
// (another thread runs an operator) does all its tasks itself; nothing waits for anybody else's
// work, and results never depend on who ran a task.
#ifndef MINDSPORE_RELAY_CPU_THREADS_H_
#define MINDSPORE_RELAY_CPU_THREADS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace mindspore_relay {

constexpr int32_t kMaxThreads = 1024;

// Threads that a ParallelFor may use, the caller's included.
int32_t GetNumThreads();

// False when num_threads is outside [1, kMaxThreads].
bool SetNumThreads(int32_t num_threads);

// Creates the threads that a ParallelFor with max_threads = num_threads will use, so that it need
// not. A system without threads to give is no error. Threads do not survive a fork: the child's
// first ParallelFor creates them again.
void StartThreads(int32_t num_threads);

// Ends the pool's threads, when the job that runs now is done, and returns when they are gone; the
// next ParallelFor creates threads again. False, with nothing done, on a thread that runs a job.
bool StopThreads();

// Whether the run should end early: 0 for no. Must not throw.
using InterruptFunction = int32_t (*)(void *argument);

// While it lives, the ParallelFor calls of its thread can be interrupted: about every 100 ms the
// thread asks is_interrupted, wherever it is. Scopes of a thread nest; the innermost counts, also
// when its is_interrupted is nullptr (then nothing is asked).
class InterruptScope {
 public:
  InterruptScope(InterruptFunction is_interrupted, void *argument);
  ~InterruptScope();
  InterruptScope(const InterruptScope &) = delete;
  InterruptScope &operator=(const InterruptScope &) = delete;

  // Whether some task was not done, or not all of it, for that reason.
  bool interrupted() const { return state_.is_over.load(std::memory_order_relaxed); }

  struct State {
    InterruptFunction is_interrupted;
    void *argument;
    std::thread::id owner;  // the thread that asks
    std::chrono::steady_clock::time_point next_question;
    std::atomic<bool> is_over{false};
  };

 private:
  State state_;
  State *before_;
};

// For long tasks: whether this one may end at once, with whatever results. Costs nanoseconds.
bool Interrupted();

// What a task is told. No two tasks run under one worker at once.
struct TaskTurn {
  int64_t index;
  int64_t next;    // what this worker will run after it, as far as is known; -1: nothing. A hint
  int32_t worker;  // in [0, max_threads)
};
using TaskFunction = void (*)(void *context, const TaskTurn &turn);

// Runs tasks 0 .. num_tasks - 1, taken in ascending order, by at most max_threads threads; returns
// when all are done, or none runs any more after an interrupt. Tasks run in the default
// floating-point environment, whatever the caller's. They must not throw. Allocates nothing once
// the threads exist. is_followed: the caller's next ParallelFor comes at once, and threads stay
// awake for it a little longer.
void ParallelFor(int64_t num_tasks, int32_t max_threads, TaskFunction task, void *context,
                 bool is_followed = false);

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_CPU_THREADS_H_
