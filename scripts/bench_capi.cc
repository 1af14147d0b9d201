// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// What a call of the C interface costs when there is next to nothing to compute: one request, one
// head, 16 keys. Both phases, with an operation that is planned anew each time, as a server does
// that plans each step. Prints, per operator and dtype, the mean time over a whole loop, in
// microseconds; the smallest of kNumLoops loops, for other programs run on the machine too.
//
// scripts/bench_capi.py compiles and runs it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "mindspore_relay/mindspore_relay.h"

namespace {

constexpr int64_t kNumKeys = 16;
constexpr int64_t kHeadSize = 128;
constexpr int kNumCalls = 100000;  // per loop: 0.1 to 0.5 s
constexpr int kNumLoops = 5;

void Check(MsRelayStatus status) {
  if (status == MS_RELAY_OK) return;
  std::fprintf(stderr, "%s: %s\n", MsRelayStatusName(status), MsRelayLastError());
  std::exit(1);
}

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

template <typename Call>
double MicrosecondsPerCall(const Call &call) {
  double best = 1e9;
  for (int loop = 0; loop < kNumLoops; ++loop) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kNumCalls; ++i) call();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    best = std::min(best, time.count() / kNumCalls);
  }
  return best;
}

void Measure(const char *dtype_name, int32_t dtype, void *workspace, uint64_t capacity_bytes) {
  std::vector<float> query_data(kHeadSize), kv_data(kNumKeys * kHeadSize), out_data(kHeadSize);
  int32_t one = 1, num_keys = kNumKeys, block = 0;
  const MsRelayTensor query = MakeTensor(query_data.data(), dtype, {1, kHeadSize});
  const MsRelayTensor cache = MakeTensor(kv_data.data(), dtype, {1, kNumKeys, kHeadSize});
  const MsRelayTensor rows = MakeTensor(kv_data.data(), dtype, {kNumKeys, kHeadSize});
  const MsRelayTensorList list = {sizeof(list), 0, 1, &rows};
  const MsRelayTensor tables = MakeTensor(&block, MS_RELAY_INT32, {1, 1});
  const MsRelayTensor seq_len = MakeTensor(&one, MS_RELAY_INT32, {1});
  const MsRelayTensor kv_seq_len = MakeTensor(&num_keys, MS_RELAY_INT32, {1});
  MsRelayTensor out = MakeTensor(out_data.data(), dtype, {1, kHeadSize});
  MsRelayOperation *prefix = nullptr, *relay = nullptr;
  uint64_t workspace_bytes = 0;

  const double prefix_us = MicrosecondsPerCall([&] {
    Check(MsRelayPrefixEncoderGetWorkspaceSize(&query, &cache, &cache, &tables, nullptr, &seq_len,
                                               &kv_seq_len, nullptr, MS_RELAY_MASK_CAUSAL, 1, 1,
                                               0.1f, &out, &workspace_bytes, &prefix, nullptr));
    Check(MsRelayPrefixEncoder(workspace, capacity_bytes, prefix, nullptr));
  });
  const double relay_us = MicrosecondsPerCall([&] {
    Check(MsRelayAttentionGetWorkspaceSize(
        &query, &list, &list, nullptr, nullptr, nullptr, &seq_len, &kv_seq_len, nullptr, nullptr,
        MS_RELAY_MASK_UNDEFINED, 1, 1, 0.1f, &out, &workspace_bytes, &relay, nullptr));
    Check(MsRelayAttention(workspace, capacity_bytes, relay, nullptr));
  });
  std::printf("prefix_encoder %s %.3f\nrelay_attention %s %.3f\n", dtype_name, prefix_us,
              dtype_name, relay_us);
  MsRelayDestroyOperation(prefix);
  MsRelayDestroyOperation(relay);
}

}  // namespace

int main() {
  constexpr uint64_t kWorkspaceBytes = 1 << 20;
  void *workspace = nullptr;
  if (posix_memalign(&workspace, 64, kWorkspaceBytes) != 0) return 1;
  Measure("float32", MS_RELAY_FLOAT32, workspace, kWorkspaceBytes);
  Measure("float16", MS_RELAY_FLOAT16, workspace, kWorkspaceBytes);
  Measure("bfloat16", MS_RELAY_BFLOAT16, workspace, kWorkspaceBytes);
  std::free(workspace);
}
