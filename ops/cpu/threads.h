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

#include <cstdint>

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

// task(context, index, worker): worker is in [0, max_threads) and no two tasks run under one worker
// at once.
using TaskFunction = void (*)(void *context, int64_t index, int32_t worker);

// Runs tasks 0 .. num_tasks - 1, begun in ascending order, by at most max_threads threads; returns
// when all are done. Tasks run in the default floating-point environment, whatever the caller's.
// They must not throw. Allocates nothing once the threads exist.
void ParallelFor(int64_t num_tasks, int32_t max_threads, TaskFunction task, void *context);

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_CPU_THREADS_H_
