// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// What a task is told by the pool of threads, and which tasks run.
#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "cpu/threads.h"
#include "gtest/gtest.h"

namespace mindspore_relay {
namespace {

// Everything that the tasks of a ParallelFor were told.
struct Record {
  std::mutex mutex;
  std::vector<TaskTurn> turns;
  std::vector<std::atomic<int32_t>> runs;
  int32_t busy_loops = 0;

  explicit Record(int64_t num_tasks) : runs(num_tasks) {}
};

void Note(void *context, const TaskTurn &turn) {
  Record &record = *static_cast<Record *>(context);
  record.runs[turn.index].fetch_add(1);
  // Tasks of different length, so that threads overtake each other.
  for (volatile int32_t i = 0; i < record.busy_loops * static_cast<int32_t>(turn.index % 7); ++i) {
  }
  const std::lock_guard<std::mutex> lock(record.mutex);
  record.turns.push_back(turn);
}

TEST(ParallelForTest, RunsEachTaskOnceWhateverTheThreads) {
  for (const int64_t num_tasks : {0, 1, 2, 3, 5, 16, 257}) {
    for (const int32_t num_threads : {1, 2, 3, 8}) {
      Record record(num_tasks);
      record.busy_loops = 100;
      ParallelFor(num_tasks, num_threads, Note, &record);
      for (int64_t i = 0; i < num_tasks; ++i) {
        EXPECT_EQ(record.runs[i].load(), 1) << i << " of " << num_tasks << ", " << num_threads;
      }
      for (const TaskTurn &turn : record.turns) {
        EXPECT_GE(turn.worker, 0);
        EXPECT_LT(turn.worker, num_threads);
        EXPECT_TRUE(turn.next == -1 || (turn.next > turn.index && turn.next < num_tasks))
            << turn.index << " is told that " << turn.next << " follows";
      }
    }
  }
}

TEST(ParallelForTest, OneThreadKnowsWhatFollows) {
  constexpr int64_t kNumTasks = 9;
  Record record(kNumTasks);
  ParallelFor(kNumTasks, 1, Note, &record);
  ASSERT_EQ(record.turns.size(), static_cast<size_t>(kNumTasks));
  for (int64_t i = 0; i < kNumTasks; ++i) {
    EXPECT_EQ(record.turns[i].index, i);
    EXPECT_EQ(record.turns[i].next, i + 1 < kNumTasks ? i + 1 : -1);
  }
}

// A task that was announced to a worker before the last ones, one for each thread, is its own.
TEST(ParallelForTest, AWorkerRunsNextWhatItWasTold) {
  constexpr int64_t kNumTasks = 200;
  constexpr int32_t kNumThreads = 2;
  Record record(kNumTasks);
  record.busy_loops = 1000;
  ParallelFor(kNumTasks, kNumThreads, Note, &record);
  std::vector<TaskTurn> last(kNumThreads, TaskTurn{-1, -1, 0});
  for (const TaskTurn &turn : record.turns) {
    const TaskTurn &before = last[turn.worker];
    if (before.index >= 0 && before.next >= 0 && before.next + kNumThreads < kNumTasks) {
      EXPECT_EQ(turn.index, before.next) << "worker " << turn.worker;
    }
    last[turn.worker] = turn;
  }
}

// What many threads do at once: one has the pool, the others run their tasks themselves.
TEST(ParallelForTest, ServesManyCallersAtOnce) {
  constexpr int64_t kNumTasks = 64;
  constexpr int32_t kNumCallers = 8;
  std::vector<std::thread> callers;
  std::atomic<int32_t> num_wrong{0};
  for (int32_t caller = 0; caller < kNumCallers; ++caller) {
    callers.emplace_back([&] {
      for (int32_t round = 0; round < 50; ++round) {
        Record record(kNumTasks);
        ParallelFor(kNumTasks, 2, Note, &record);
        for (const auto &runs : record.runs) num_wrong += runs.load() != 1;
      }
    });
  }
  for (std::thread &caller : callers) caller.join();
  EXPECT_EQ(num_wrong.load(), 0);
}

}  // namespace
}  // namespace mindspore_relay
