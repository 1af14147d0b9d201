// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// What a call of the C interface costs when there is next to nothing to compute: one request, one
// head, 16 keys. Both phases, with an operation that is planned anew each time, as a server does
// that plans each step. Then what the host does per decode step of many requests: phase 1 alone
// (checks, reading of tables, plan). Prints, per operator and dtype, the mean time over a whole
// loop, in microseconds; the smallest of kNumLoops loops, for other programs run on the machine
// too.
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

// A decode step as of a server.
constexpr int32_t kBatch = 64;
constexpr int32_t kHeadNum = 32;
constexpr int32_t kKvHeadNum = 8;
constexpr int32_t kPrefix = 2048;
constexpr int32_t kPrivate = 128;
constexpr int kNumPlans = 10000;  // per loop

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
double MicrosecondsPerCall(int num_calls, const Call &call) {
  double best = 1e9;
  for (int loop = 0; loop < kNumLoops; ++loop) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < num_calls; ++i) call();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    best = std::min(best, time.count() / num_calls);
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

  const double prefix_us = MicrosecondsPerCall(kNumCalls, [&] {
    Check(MsRelayPrefixEncoderGetWorkspaceSize(&query, &cache, &cache, &tables, nullptr, &seq_len,
                                               &kv_seq_len, nullptr, MS_RELAY_MASK_CAUSAL, 1, 1,
                                               0.1f, &out, &workspace_bytes, &prefix, nullptr));
    Check(MsRelayPrefixEncoder(workspace, capacity_bytes, prefix, nullptr));
  });
  const double relay_us = MicrosecondsPerCall(kNumCalls, [&] {
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

enum class Form {
  kPaged,       // kBatch requests behind one prefix, over a paged cache
  kPagedAlone,  // the same without a group: each has the prefix in its own table
  kLists,       // one tensor per request, one for the prefix
};

// Phase 1 of a decode step.
double PlanMicroseconds(Form form, int32_t block_size) {
  const bool is_paged = form != Form::kLists, has_groups = form != Form::kPagedAlone;
  const int32_t share_blocks = kPrefix / block_size, own_blocks = kPrivate / block_size;
  const int32_t num_blocks = share_blocks + kBatch * own_blocks;
  const int64_t block_elements = int64_t{block_size} * kKvHeadNum * kHeadSize;
  // Never read: phase 1 looks at lengths and tables only.
  std::vector<uint16_t> cache_data(num_blocks * block_elements);
  std::vector<uint16_t> query_data(kBatch * kHeadNum * kHeadSize), out_data(query_data.size());
  std::vector<int32_t> share_table, own_table, lengths(kBatch, kPrefix + kPrivate);
  std::vector<int32_t> seq_lens(kBatch, 1), groups(kBatch, has_groups ? 0 : -1);
  std::vector<int32_t> share_lengths(1, kPrefix);
  for (int32_t i = 0; i < share_blocks; ++i) share_table.push_back(i);
  for (int32_t b = 0; b < kBatch; ++b) {
    if (!has_groups) own_table.insert(own_table.end(), share_table.begin(), share_table.end());
    for (int32_t i = 0; i < own_blocks; ++i) {
      own_table.push_back(share_blocks + b * own_blocks + i);
    }
  }
  const int32_t type = MS_RELAY_BFLOAT16;
  const MsRelayTensor query = MakeTensor(query_data.data(), type, {kBatch, kHeadNum, kHeadSize});
  MsRelayTensor out = MakeTensor(out_data.data(), type, {kBatch, kHeadNum, kHeadSize});
  const MsRelayTensor cache =
      MakeTensor(cache_data.data(), type, {num_blocks, block_size, kKvHeadNum, kHeadSize});
  const std::vector<MsRelayTensor> own_rows(
      kBatch, MakeTensor(cache_data.data(), type, {kPrivate, kKvHeadNum, kHeadSize}));
  const MsRelayTensor share_rows =
      MakeTensor(cache_data.data(), type, {kPrefix, kKvHeadNum, kHeadSize});
  const MsRelayTensorList own = {sizeof(own), 0, is_paged ? 1 : kBatch,
                                 is_paged ? &cache : own_rows.data()};
  const MsRelayTensorList share = {sizeof(share), 0, is_paged ? 0 : 1, &share_rows};
  const int32_t int32 = MS_RELAY_INT32;
  const MsRelayTensor seq_len = MakeTensor(seq_lens.data(), int32, {kBatch});
  const MsRelayTensor kv_seq_len = MakeTensor(lengths.data(), int32, {kBatch});
  const MsRelayTensor share_map = MakeTensor(groups.data(), int32, {kBatch});
  const MsRelayTensor share_len = MakeTensor(share_lengths.data(), int32, {1});
  const MsRelayTensor tables = MakeTensor(
      own_table.data(), int32, {kBatch, static_cast<int64_t>(own_table.size()) / kBatch});
  const MsRelayTensor share_tables = MakeTensor(share_table.data(), int32, {1, share_blocks});
  MsRelayOptions options = {};
  options.struct_bytes = sizeof(options);
  options.block_tables = is_paged ? &tables : nullptr;
  options.share_block_tables = is_paged ? &share_tables : nullptr;
  MsRelayOperation *operation = nullptr;
  Check(MsRelayCreateOperation(&operation, nullptr));
  uint64_t workspace_bytes = 0;
  const double microseconds = MicrosecondsPerCall(kNumPlans, [&] {
    Check(MsRelayOperationSetOptions(operation, &options));
    Check(MsRelayAttentionGetWorkspaceSize(&query, &own, &own, &share, &share, nullptr, &seq_len,
                                           &kv_seq_len, &share_map, &share_len,
                                           MS_RELAY_MASK_UNDEFINED, kHeadNum, kKvHeadNum, 0.1f,
                                           &out, &workspace_bytes, &operation, nullptr));
  });
  MsRelayDestroyOperation(operation);
  return microseconds;
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
  for (int32_t block_size : {16, 128}) {
    std::printf("plan64_block%d bfloat16 %.3f\n", block_size,
                PlanMicroseconds(Form::kPaged, block_size));
    std::printf("plan64_block%d_alone bfloat16 %.3f\n", block_size,
                PlanMicroseconds(Form::kPagedAlone, block_size));
  }
  std::printf("plan64_lists bfloat16 %.3f\n", PlanMicroseconds(Form::kLists, kPrivate));
}
