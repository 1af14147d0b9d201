// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// 64 threads, each with 64 operations of its own, plan and run at once; every output must have the
// bits that one thread alone computed, and every failure must be told to its own thread. Built and
// run by tests/test_installed_c.py; prints "ok".
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "mindspore_relay/mindspore_relay.h"

#define CHECK(condition)                                                         \
  do {                                                                           \
    if (!(condition)) {                                                          \
      std::printf("%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, \
                  MsRelayLastError());                                           \
      std::fflush(stdout);                                                       \
      std::_Exit(1); /* other threads still run */                               \
    }                                                                            \
  } while (0)

namespace {

constexpr int kNumThreads = 64;
constexpr int kNumOperations = 64;  // per thread
constexpr int kNumRounds = 3;
constexpr int64_t kHeadNum = 4;
constexpr int64_t kKvHeadNum = 2;
constexpr int64_t kHeadSize = 16;
constexpr int64_t kHidden = kHeadNum * kHeadSize;
constexpr int64_t kKvHidden = kKvHeadNum * kHeadSize;

MsRelayTensor MakeTensor(const void *data, int32_t dtype, const std::vector<int64_t> &shape) {
  MsRelayTensor tensor = {};
  tensor.struct_bytes = sizeof(tensor);
  tensor.dtype = dtype;
  tensor.rank = static_cast<int32_t>(shape.size());
  tensor.data = const_cast<void *>(data);
  int64_t stride = 1;
  for (int32_t dim = tensor.rank - 1; dim >= 0; --dim) {
    tensor.shape[dim] = shape[dim];
    tensor.strides[dim] = stride;
    stride *= shape[dim];
  }
  return tensor;
}

// A decode step: `batch` requests with 3 private keys each, behind a prefix of shared_len keys.
// Some are so small that one thread does them, some so large that the pool's threads share them.
struct Problem {
  explicit Problem(int seed)
      : batch(1 + seed % 7), shared_len(seed % 16 == 0 ? 2500 : 5 + seed % 90) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    const auto fill = [&](std::vector<float> *values, int64_t count) {
      values->resize(static_cast<size_t>(count));
      for (float &value : *values) value = uniform(random);
    };
    fill(&query, batch * kHidden);
    fill(&key, batch * 3 * kKvHidden);
    fill(&value, batch * 3 * kKvHidden);
    fill(&key_share, shared_len * kKvHidden);
    fill(&value_share, shared_len * kKvHidden);
    kv_seq_len.assign(static_cast<size_t>(batch), static_cast<int32_t>(shared_len) + 3);
    share_map.assign(static_cast<size_t>(batch), 0);
  }

  int64_t batch, shared_len;
  std::vector<float> query, key, value, key_share, value_share;
  std::vector<int32_t> kv_seq_len, share_map;
};

// The problem's output, by an operation that may exist already.
std::vector<float> Run(const Problem &p, MsRelayOperation **op, MsRelayContext *context) {
  std::vector<float> out(p.query.size(), -1.0f);
  const int32_t share_len = static_cast<int32_t>(p.shared_len);
  const MsRelayTensor query = MakeTensor(p.query.data(), MS_RELAY_FLOAT32, {p.batch, kHidden});
  const MsRelayTensor key = MakeTensor(p.key.data(), MS_RELAY_FLOAT32, {p.batch, 3, kKvHidden});
  const MsRelayTensor value = MakeTensor(p.value.data(), MS_RELAY_FLOAT32, {p.batch, 3, kKvHidden});
  const MsRelayTensor key_share =
      MakeTensor(p.key_share.data(), MS_RELAY_FLOAT32, {p.shared_len, kKvHidden});
  const MsRelayTensor value_share =
      MakeTensor(p.value_share.data(), MS_RELAY_FLOAT32, {p.shared_len, kKvHidden});
  const MsRelayTensor kv_seq_len = MakeTensor(p.kv_seq_len.data(), MS_RELAY_INT32, {p.batch});
  const MsRelayTensor share_map = MakeTensor(p.share_map.data(), MS_RELAY_INT32, {p.batch});
  const MsRelayTensor share_len_tensor = MakeTensor(&share_len, MS_RELAY_INT32, {1});
  MsRelayTensor out_tensor = MakeTensor(out.data(), MS_RELAY_FLOAT32, {p.batch, kHidden});
  const MsRelayTensorList lists[] = {{sizeof(MsRelayTensorList), 1, 1, &key},
                                     {sizeof(MsRelayTensorList), 1, 1, &value},
                                     {sizeof(MsRelayTensorList), 0, 1, &key_share},
                                     {sizeof(MsRelayTensorList), 0, 1, &value_share}};
  uint64_t workspace_bytes = 0;
  CHECK(MsRelayAttentionGetWorkspaceSize(
            &query, &lists[0], &lists[1], &lists[2], &lists[3], nullptr, nullptr, &kv_seq_len,
            &share_map, &share_len_tensor, MS_RELAY_MASK_UNDEFINED, kHeadNum, kKvHeadNum, 0.25f,
            &out_tensor, &workspace_bytes, op, context) == MS_RELAY_OK);
  void *workspace = nullptr;
  CHECK(posix_memalign(&workspace, 64, workspace_bytes + 64) == 0);
  CHECK(MsRelayAttention(workspace, workspace_bytes, *op, context) == MS_RELAY_OK);
  std::free(workspace);
  return out;
}

// Counts up and waits until the count is `wanted`: all threads meet here.
void Meet(std::atomic<int> *count, int wanted) {
  ++*count;
  while (*count < wanted) std::this_thread::yield();
}

// Every thread fails with a text that names it, and only then do they look: each must find its own.
void CheckOwnError(int thread, MsRelayContext *context, std::atomic<int> *num_failed, int wanted) {
  const int32_t wrong = -1000 - thread;
  CHECK(MsRelayContextSetNumThreads(context, wrong) == MS_RELAY_INVALID_ARGUMENT);
  Meet(num_failed, wanted);
  CHECK(std::strstr(MsRelayLastError(), std::to_string(wrong).c_str()) != nullptr);
  char text[1024];
  CHECK(MsRelayContextLastError(context, text, sizeof(text)) > 0);  // of some thread
  CHECK(std::strstr(text, "num_threads must be in [0, 1024], got -1") != nullptr);
}

}  // namespace

int main() {
  CHECK(MsRelaySetNumThreads(4) == MS_RELAY_OK);
  std::vector<std::unique_ptr<Problem>> problems;
  std::vector<std::vector<float>> expected;
  for (int i = 0; i < kNumOperations; ++i) {
    problems.push_back(std::make_unique<Problem>(i));
    MsRelayOperation *op = nullptr;
    expected.push_back(Run(*problems.back(), &op, nullptr));
    MsRelayDestroyOperation(op);
  }

  MsRelayContext *shared_context = nullptr;
  CHECK(MsRelayCreateContext(&shared_context) == MS_RELAY_OK);
  std::atomic<int> num_ready{0}, num_failed{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kNumThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::vector<MsRelayOperation *> ops(kNumOperations, nullptr);
      Meet(&num_ready, kNumThreads);
      for (int round = 0; round < kNumRounds; ++round) {
        for (int i = 0; i < kNumOperations; ++i) {
          const int index = (i + thread) % kNumOperations;  // different problems meet
          const std::vector<float> out = Run(*problems[index], &ops[index], shared_context);
          CHECK(std::memcmp(out.data(), expected[index].data(), out.size() * sizeof(float)) == 0);
        }
        CheckOwnError(thread, shared_context, &num_failed, (round + 1) * kNumThreads);
      }
      for (MsRelayOperation *op : ops) MsRelayDestroyOperation(op);
    });
  }
  for (std::thread &thread : threads) thread.join();
  MsRelayDestroyContext(shared_context);
  std::printf("ok\n");
  return 0;
}
