// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// A process that ends by exit() while other threads plan and run operators, as servers do. The
// library must not destroy what those threads use. Built and run by tests/test_installed_c.py;
// prints "ok".
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "mindspore_relay/mindspore_relay.h"

namespace {

constexpr int kNumThreads = 4;
constexpr int64_t kNumKeys = 600;
constexpr int64_t kHeadSize = 16;
std::atomic<int> num_started{0};

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

// Plans and runs, for ever, with right arguments and with wrong ones, whose messages are text.
void RunForEver() {
  std::vector<float> query(kHeadSize), cache(kNumKeys * kHeadSize), out(kHeadSize);
  int32_t one = 1, num_keys = kNumKeys;
  std::vector<int32_t> blocks(kNumKeys);
  for (int32_t i = 0; i < kNumKeys; ++i) blocks[i] = i;
  const MsRelayTensor query_tensor = MakeTensor(query.data(), MS_RELAY_FLOAT32, {1, kHeadSize});
  const MsRelayTensor cache_tensor =
      MakeTensor(cache.data(), MS_RELAY_FLOAT32, {kNumKeys, 1, kHeadSize});
  const MsRelayTensor tables = MakeTensor(blocks.data(), MS_RELAY_INT32, {1, kNumKeys});
  const MsRelayTensor seq_len = MakeTensor(&one, MS_RELAY_INT32, {1});
  const MsRelayTensor kv_seq_len = MakeTensor(&num_keys, MS_RELAY_INT32, {1});
  MsRelayTensor out_tensor = MakeTensor(out.data(), MS_RELAY_FLOAT32, {1, kHeadSize});
  void *workspace = nullptr;
  if (posix_memalign(&workspace, 64, 1 << 20) != 0) std::abort();
  MsRelayOperation *op = nullptr;
  for (int64_t round = 0;; ++round) {
    uint64_t workspace_bytes = 0;
    const auto plan = [&](int32_t head_num) {
      return MsRelayPrefixEncoderGetWorkspaceSize(&query_tensor, &cache_tensor, &cache_tensor,
                                                  &tables, nullptr, &seq_len, &kv_seq_len, nullptr,
                                                  MS_RELAY_MASK_CAUSAL, head_num, 1, 1.0f,
                                                  &out_tensor, &workspace_bytes, &op, nullptr);
    };
    if (plan(3) != MS_RELAY_INVALID_ARGUMENT) std::abort();
    if (plan(1) != MS_RELAY_OK) std::abort();
    if (MsRelayPrefixEncoder(workspace, 1 << 20, op, nullptr) != MS_RELAY_OK) std::abort();
    if (MsRelayIsaName()[0] == '\0' || MsRelayIsaList()[0] == '\0') std::abort();
    if (round == 0) ++num_started;
  }
}

// Runs last of all that exit() runs, for it was registered first: what the library destroys is
// gone.
void Linger() { std::this_thread::sleep_for(std::chrono::milliseconds(200)); }

}  // namespace

int main() {
  if (std::atexit(&Linger) != 0) return 1;
  for (int i = 0; i < kNumThreads; ++i) std::thread(&RunForEver).detach();
  while (num_started < kNumThreads) std::this_thread::yield();
  std::printf("ok\n");
  std::exit(0);
}
