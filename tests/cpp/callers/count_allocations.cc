// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Counts what the library takes from the heap, and takes the heap away from it.
//   - Phase 2 allocates nothing, not even the first time and with several threads.
//   - Phase 1 of an operation that was planned for the same shapes before allocates nothing either.
//   - Phase 1 answers OUT_OF_MEMORY whichever of its allocations fails, and works afterwards.
// The functions of malloc's family that this program defines take the place of the C library's, in
// the shared library too. Built and run by tests/test_installed_c.py; prints "ok".
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
// The allocation with this number, counted from 0, and all later ones fail; -1: none.
std::atomic<int64_t> first_failing{-1};

// Counts an allocation; false: it must fail.
bool MayAllocate() {
  const int64_t index = num_allocations.fetch_add(1);
  const int64_t limit = first_failing.load();
  if (limit < 0 || index < limit) return true;
  errno = ENOMEM;
  return false;
}

}  // namespace

extern "C" {
void *malloc(size_t size) { return MayAllocate() ? __libc_malloc(size) : nullptr; }
void *calloc(size_t count, size_t size) {
  return MayAllocate() ? __libc_calloc(count, size) : nullptr;
}
void *realloc(void *data, size_t size) {
  return MayAllocate() ? __libc_realloc(data, size) : nullptr;
}
void *memalign(size_t align, size_t size) {
  return MayAllocate() ? __libc_memalign(align, size) : nullptr;
}
void *aligned_alloc(size_t align, size_t size) { return memalign(align, size); }
int posix_memalign(void **data, size_t align, size_t size) {
  void *const allocated = memalign(align, size);
  if (allocated == nullptr) return ENOMEM;
  *data = allocated;
  return 0;
}
void free(void *data) { __libc_free(data); }
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

// Fails the first, second, ... allocation of phase 1 and all after it, until phase 1 succeeds.
void TestOutOfMemory(Problem *problem, PlanFn plan) {
  for (int64_t limit = 0;; ++limit) {
    CHECK(limit < 10000);
    MsRelayOperation *op = nullptr;
    num_allocations = 0;
    first_failing = limit;
    const MsRelayStatus status = (problem->*plan)(&op);
    first_failing = -1;
    if (status == MS_RELAY_OK) {
      CHECK(limit > 0);
      MsRelayDestroyOperation(op);
      return;
    }
    CHECK(status == MS_RELAY_OUT_OF_MEMORY);
    CHECK(std::strstr(MsRelayLastError(), "out of memory") != nullptr);
    CHECK(op == nullptr && problem->workspace_bytes == 0);
    // An operation that exists survives the failure.
    CHECK(MsRelayCreateOperation(&op, nullptr) == MS_RELAY_OK);
    num_allocations = 0;
    first_failing = limit;
    CHECK((problem->*plan)(&op) != MS_RELAY_INTERNAL);
    first_failing = -1;
    CHECK((problem->*plan)(&op) == MS_RELAY_OK);
    MsRelayDestroyOperation(op);
  }
}

void TestCreateOutOfMemory() {
  MsRelayContext *context = nullptr;
  MsRelayOperation *op = nullptr;
  num_allocations = 0;
  first_failing = 0;
  const MsRelayStatus context_status = MsRelayCreateContext(&context);
  const MsRelayStatus op_status = MsRelayCreateOperation(&op, nullptr);
  first_failing = -1;
  CHECK(context_status == MS_RELAY_OUT_OF_MEMORY && context == nullptr);
  CHECK(op_status == MS_RELAY_OUT_OF_MEMORY && op == nullptr);
}

}  // namespace

int main() {
  CHECK(MsRelaySetNumThreads(4) == MS_RELAY_OK);
  for (int32_t dtype : {MS_RELAY_FLOAT32, MS_RELAY_FLOAT16, MS_RELAY_BFLOAT16}) {
    Problem problem(dtype);
    TestSteadyState(&problem, &Problem::PlanRelay, &MsRelayAttention);
    TestSteadyState(&problem, &Problem::PlanPrefix, &MsRelayPrefixEncoder);
    TestOutOfMemory(&problem, &Problem::PlanRelay);
    TestOutOfMemory(&problem, &Problem::PlanPrefix);
  }
  TestCreateOutOfMemory();
  std::printf("ok\n");
  return 0;
}
