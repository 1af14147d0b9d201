// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Counts what the library takes from the heap, and takes the heap away from it.
//   - Phase 2 allocates nothing, not even the first time and with several threads.
//   - Phase 1 of an operation that was planned for the same shapes before allocates nothing either.
//   - Whichever allocation of a call fails, alone or with all after it, the call answers
//     OUT_OF_MEMORY (or does without, with fewer threads), nothing is lost, and the next one works.
// The functions of malloc's family that this program defines take the place of the C library's, in
// the shared library too. Built and run by tests/test_installed_c.py; prints "ok".
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "mindspore_relay/mindspore_relay.h"

extern "C" {
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *data, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *data);
}

namespace {

std::atomic<int64_t> num_allocations{0};
std::atomic<int64_t> num_live{0};  // allocated and not freed
// The allocation with this number, counted from 0, fails, and unless only_one so do all later ones;
// -1: none.
std::atomic<int64_t> first_failing{-1};
std::atomic<bool> only_one{false};

// Counts an allocation; false: it must fail.
bool MayAllocate() {
  const int64_t index = num_allocations.fetch_add(1);
  const int64_t limit = first_failing.load();
  if (limit < 0 || index < limit || (only_one && index > limit)) return true;
  errno = ENOMEM;
  return false;
}

void *Count(void *block) {
  if (block != nullptr) ++num_live;
  return block;
}

}  // namespace

extern "C" {
void *malloc(size_t size) { return MayAllocate() ? Count(__libc_malloc(size)) : nullptr; }
void *calloc(size_t count, size_t size) {
  return MayAllocate() ? Count(__libc_calloc(count, size)) : nullptr;
}
void *realloc(void *data, size_t size) {
  if (!MayAllocate()) return nullptr;
  void *const block = __libc_realloc(data, size);
  return data == nullptr ? Count(block) : block;
}
void *memalign(size_t align, size_t size) {
  return MayAllocate() ? Count(__libc_memalign(align, size)) : nullptr;
}
void *aligned_alloc(size_t align, size_t size) { return memalign(align, size); }
int posix_memalign(void **data, size_t align, size_t size) {
  void *const allocated = memalign(align, size);
  if (allocated == nullptr) return ENOMEM;
  *data = allocated;
  return 0;
}
void free(void *data) {
  if (data != nullptr) --num_live;
  __libc_free(data);
}
}

#define CHECK(condition)                                                         \
  do {                                                                           \
    if (!(condition)) {                                                          \
      std::printf("%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, \
                  MsRelayLastError());                                           \
      std::exit(1);                                                              \
    }                                                                            \
  } while (0)

namespace {

constexpr int64_t kBatch = 6;
constexpr int64_t kHeadNum = 4;
constexpr int64_t kKvHeadNum = 2;
constexpr int64_t kHeadSize = 32;
constexpr int64_t kSharedLen = 700;  // more than one span of keys: partial results are needed
constexpr int64_t kPrivateLen = 600;
constexpr int64_t kBlockSize = 32;
constexpr int64_t kNumBlocks = 64;

MsRelayTensor MakeTensor(void *data, int32_t dtype, const std::vector<int64_t> &shape) {
  MsRelayTensor tensor = {};
  tensor.struct_bytes = sizeof(tensor);
  tensor.dtype = dtype;
  tensor.rank = static_cast<int32_t>(shape.size());
  tensor.data = data;
  int64_t stride = 1;
  for (int32_t dim = tensor.rank - 1; dim >= 0; --dim) {
    tensor.shape[dim] = shape[dim];
    tensor.strides[dim] = stride;
    stride *= shape[dim];
  }
  return tensor;
}

// Inputs of a decode step and of a prefill. All elements are 0, whatever the dtype.
struct Problem {
  explicit Problem(int32_t dtype)
      : query(MakeTensor(room.data(), dtype, {kBatch, kHeadNum * kHeadSize})),
        shared(MakeTensor(room.data(), dtype, {kSharedLen, kKvHeadNum, kHeadSize})),
        own(kBatch, MakeTensor(room.data(), dtype, {kPrivateLen, kKvHeadNum, kHeadSize})),
        cache(MakeTensor(room.data(), dtype, {kNumBlocks, kBlockSize, kKvHeadNum, kHeadSize})),
        out(MakeTensor(out_room.data(), dtype, {kBatch, kHeadNum * kHeadSize})) {
    own_list = {sizeof(MsRelayTensorList), 0, kBatch, own.data()};
    shared_list = {sizeof(MsRelayTensorList), 0, 1, &shared};
  }

  MsRelayStatus PlanRelay(MsRelayOperation **op) {
    return MsRelayAttentionGetWorkspaceSize(
        &query, &own_list, &own_list, &shared_list, &shared_list, nullptr, nullptr, &kv_seq_tensor,
        &map_tensor, &share_len_tensor, MS_RELAY_MASK_UNDEFINED, kHeadNum, kKvHeadNum, 1.0f, &out,
        &workspace_bytes, op, nullptr);
  }

  MsRelayStatus PlanPrefix(MsRelayOperation **op) {
    return MsRelayPrefixEncoderGetWorkspaceSize(
        &query, &cache, &cache, &tables_tensor, nullptr, &seq_tensor, &prefill_kv_tensor, nullptr,
        MS_RELAY_MASK_CAUSAL, kHeadNum, kKvHeadNum, 1.0f, &out, &workspace_bytes, op, nullptr);
  }

  std::vector<float> room = std::vector<float>(kNumBlocks * kBlockSize * kKvHeadNum * kHeadSize);
  std::vector<float> out_room = std::vector<float>(kBatch * kHeadNum * kHeadSize);
  std::vector<int32_t> kv_seq_len = std::vector<int32_t>(kBatch, kSharedLen + kPrivateLen);
  std::vector<int32_t> share_map = std::vector<int32_t>(kBatch, 0);
  int32_t share_len = kSharedLen, seq_len = kBatch, prefill_kv_len = 1500;
  std::vector<int32_t> tables = std::vector<int32_t>(kNumBlocks, 1);
  MsRelayTensor kv_seq_tensor = MakeTensor(kv_seq_len.data(), MS_RELAY_INT32, {kBatch});
  MsRelayTensor map_tensor = MakeTensor(share_map.data(), MS_RELAY_INT32, {kBatch});
  MsRelayTensor share_len_tensor = MakeTensor(&share_len, MS_RELAY_INT32, {1});
  MsRelayTensor seq_tensor = MakeTensor(&seq_len, MS_RELAY_INT32, {1});
  MsRelayTensor prefill_kv_tensor = MakeTensor(&prefill_kv_len, MS_RELAY_INT32, {1});
  MsRelayTensor tables_tensor = MakeTensor(tables.data(), MS_RELAY_INT32, {1, kNumBlocks});
  MsRelayTensor query, shared;
  std::vector<MsRelayTensor> own;
  MsRelayTensor cache, out;
  MsRelayTensorList own_list, shared_list;
  uint64_t workspace_bytes = 0;
};

using PlanFn = MsRelayStatus (Problem::*)(MsRelayOperation **);
using RunFn = MsRelayStatus (*)(void *, uint64_t, MsRelayOperation *, MsRelayContext *);

void TestSteadyState(Problem *problem, PlanFn plan, RunFn run) {
  MsRelayOperation *op = nullptr;
  CHECK((problem->*plan)(&op) == MS_RELAY_OK);
  CHECK(num_allocations > 0);  // the counter works
  void *workspace = nullptr;
  CHECK(posix_memalign(&workspace, 64, problem->workspace_bytes + 64) == 0);
  for (int i = 0; i < 3; ++i) {
    const int64_t before_run = num_allocations;
    CHECK(run(workspace, problem->workspace_bytes, op, nullptr) == MS_RELAY_OK);
    CHECK(num_allocations == before_run);
    const int64_t before_plan = num_allocations;
    CHECK((problem->*plan)(&op) == MS_RELAY_OK);
    CHECK(num_allocations == before_plan);
  }
  std::free(workspace);
  MsRelayDestroyOperation(op);
}

// Calls `call` with its first, second, ... allocation failing, until it needs no more; before and
// after each, `undo` frees what a success left. Returns how often a status of failure came.
template <typename Call, typename Undo>
int64_t FailEachAllocation(MsRelayStatus final_status, Call &&call, Undo &&undo) {
  int64_t num_failures = 0;
  for (int64_t limit = 0;; ++limit) {
    CHECK(limit < 10000);
    const int64_t live_before = num_live;
    num_allocations = 0;
    first_failing = limit;
    const MsRelayStatus status = call();
    first_failing = -1;
    const bool is_reached = num_allocations > limit;
    if (status == MS_RELAY_OUT_OF_MEMORY) {
      ++num_failures;
      CHECK(is_reached);
      CHECK(std::strstr(MsRelayLastError(), "out of memory") != nullptr);
    } else {
      CHECK(status == final_status);
    }
    if (status == MS_RELAY_OK) undo();
    CHECK(num_live == live_before);  // nothing lost
    CHECK(call() == final_status);   // and the next call works
    if (final_status == MS_RELAY_OK) undo();
    if (!is_reached) return num_failures;
  }
}

void TestOutOfMemory(Problem *problem, PlanFn plan) {
  MsRelayOperation *op = nullptr;
  const auto plan_anew = [&] {
    const MsRelayStatus status = (problem->*plan)(&op);
    CHECK(status == MS_RELAY_OK || (op == nullptr && problem->workspace_bytes == 0));
    return status;
  };
  const auto destroy = [&] {
    MsRelayDestroyOperation(op);
    op = nullptr;
  };
  CHECK(FailEachAllocation(MS_RELAY_OK, plan_anew, destroy) > 0);

  // An operation that exists survives the failure. It keeps the memory of its vectors, so that one
  // is made for each failure.
  for (int64_t limit = 0;; ++limit) {
    CHECK(MsRelayCreateOperation(&op, nullptr) == MS_RELAY_OK);
    num_allocations = 0;
    first_failing = limit;
    const MsRelayStatus status = (problem->*plan)(&op);
    first_failing = -1;
    CHECK(op != nullptr && (status == MS_RELAY_OK || status == MS_RELAY_OUT_OF_MEMORY));
    CHECK((problem->*plan)(&op) == MS_RELAY_OK);
    destroy();
    if (status == MS_RELAY_OK && num_allocations <= limit) break;
  }
}

// Handles, options, and a failure that finds no memory for its text.
void TestHandlesOutOfMemory(Problem *problem) {
  MsRelayContext *context = nullptr;
  MsRelayOperation *op = nullptr;
  const auto destroy_context = [&] {
    MsRelayDestroyContext(context);
    context = nullptr;
  };
  const auto destroy = [&] {
    MsRelayDestroyOperation(op);
    op = nullptr;
  };
  const auto nothing = [] {};
  CHECK(FailEachAllocation(
            MS_RELAY_OK, [&] { return MsRelayCreateContext(&context); }, destroy_context) == 1);
  CHECK(FailEachAllocation(
            MS_RELAY_OK, [&] { return MsRelayCreateOperation(&op, nullptr); }, destroy) == 1);
  CHECK(MsRelayCreateOperation(&op, nullptr) == MS_RELAY_OK);
  MsRelayOptions options = {sizeof(MsRelayOptions),
                            MS_RELAY_PATH_PLAIN,
                            nullptr,
                            &problem->tables_tensor,
                            nullptr,
                            nullptr};
  FailEachAllocation(
      MS_RELAY_OK, [&] { return MsRelayOperationSetOptions(op, &options); }, nothing);
  options.struct_bytes = 3;
  CHECK(FailEachAllocation(
            MS_RELAY_INVALID_ARGUMENT, [&] { return MsRelayOperationSetOptions(op, &options); },
            nothing) > 0);
  CHECK(FailEachAllocation(
            MS_RELAY_INVALID_ARGUMENT, [] { return MsRelaySetIsa("none"); }, nothing) > 0);
  CHECK(FailEachAllocation(
            MS_RELAY_INVALID_ARGUMENT, [&] { return MsRelayAttention(nullptr, 0, op, nullptr); },
            nothing) > 0);
  destroy();
}

// The one-call operators: they need no memory but for threads and for the text of a failure.
void TestCacheAndMergeOutOfMemory(Problem *problem) {
  const int32_t dtype = problem->query.dtype;
  std::vector<int32_t> slots(kSharedLen, 0);
  std::vector<float> lse_room(kSharedLen * kKvHeadNum),
      cache_room(kSharedLen * kKvHeadNum * kHeadSize);
  MsRelayTensor cache = MakeTensor(cache_room.data(), dtype, {1, 16, kKvHeadNum, kHeadSize});
  MsRelayTensor slot_tensor = MakeTensor(slots.data(), MS_RELAY_INT32, {kSharedLen});
  MsRelayTensor lse = MakeTensor(lse_room.data(), MS_RELAY_FLOAT32, {kSharedLen, kKvHeadNum});
  MsRelayTensor states = MakeTensor(cache_room.data(), dtype, {kSharedLen, kKvHeadNum, kHeadSize});
  const auto write = [&] {
    return MsRelayReshapeAndCache(&problem->shared, &problem->shared, &cache, &cache, &slot_tensor,
                                  nullptr);
  };
  const auto merge = [&] {
    return MsRelayMergeAttentionStates(&problem->shared, &lse, &problem->shared, &lse, &states,
                                       &lse, nullptr);
  };
  const auto nothing = [] {};
  FailEachAllocation(MS_RELAY_OK, write, nothing);
  FailEachAllocation(MS_RELAY_OK, merge, nothing);
  slots[5] = 16;  // behind the last slot
  CHECK(FailEachAllocation(MS_RELAY_INVALID_ARGUMENT, write, nothing) > 0);
  lse.rank = 1;
  CHECK(FailEachAllocation(MS_RELAY_INVALID_ARGUMENT, merge, nothing) > 0);
}

// The pool begins without memory for itself or for a thread: the work is done by those that are
// there. In children, since the pool of this process is there already; a child begins a new one.
void TestPoolOutOfMemory(Problem *problem) {
  MsRelayOperation *op = nullptr;
  CHECK(problem->PlanRelay(&op) == MS_RELAY_OK);
  void *workspace = nullptr;
  CHECK(posix_memalign(&workspace, 64, problem->workspace_bytes + 64) == 0);
  for (int64_t limit = 0;; ++limit) {
    CHECK(limit < 100);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      num_allocations = 0;
      first_failing = limit;
      const MsRelayStatus status =
          MsRelayAttention(workspace, problem->workspace_bytes, op, nullptr);
      _exit(status != MS_RELAY_OK ? 1 : num_allocations > limit ? 2 : 3);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) >= 2);
    if (WEXITSTATUS(status) == 3) {
      CHECK(limit > 0);
      break;
    }
  }
  std::free(workspace);
  MsRelayDestroyOperation(op);
}

}  // namespace

int main() {
  CHECK(MsRelaySetNumThreads(4) == MS_RELAY_OK);
  CHECK(MsRelaySetIsa("none") == MS_RELAY_INVALID_ARGUMENT);  // the thread has its text from now on
  for (int32_t dtype : {MS_RELAY_FLOAT32, MS_RELAY_FLOAT16, MS_RELAY_BFLOAT16}) {
    Problem problem(dtype);
    TestSteadyState(&problem, &Problem::PlanRelay, &MsRelayAttention);
    TestSteadyState(&problem, &Problem::PlanPrefix, &MsRelayPrefixEncoder);
    for (bool is_alone : {false, true}) {
      only_one = is_alone;
      TestOutOfMemory(&problem, &Problem::PlanRelay);
      TestOutOfMemory(&problem, &Problem::PlanPrefix);
      TestHandlesOutOfMemory(&problem);
      TestCacheAndMergeOutOfMemory(&problem);
      TestPoolOutOfMemory(&problem);
    }
  }
  std::printf("ok\n");
  return 0;
}
