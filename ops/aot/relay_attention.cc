// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// ops.Custom entry points of RelayAttention.
#include <algorithm>
#include <mutex>
#include <vector>

#include "aot/arguments.h"
#include "aot/infer.h"
#include "aot/runner.h"

namespace mindspore_relay::aot {
namespace {

constexpr char kOpName[] = "relay_attention";

// Bits of the input stacked_lists: which of the four lists came as one tensor.
enum StackedBit : int32_t {
  kKeyIsStacked = 1,
  kValueIsStacked = 2,
  kKeyShareIsStacked = 4,
  kValueShareIsStacked = 8,
};

// Paths of the last successful run of the process, whatever thread it was on: MindSpore runs an
// operator on a thread that its caller does not know. Never destroyed: a thread may still run when
// the process exits.
struct LastPaths {
  std::mutex mutex;
  std::vector<int32_t> paths;
};

LastPaths &GetLastPaths() {
  static LastPaths &last_paths = *new LastPaths();
  return last_paths;
}

void StoreLastPaths(const MsRelayOperation *operation, int64_t num_groups) {
  LastPaths &last = GetLastPaths();
  const std::lock_guard<std::mutex> lock(last.mutex);
  last.paths.resize(static_cast<size_t>(num_groups));
  for (int64_t group = 0; group < num_groups; ++group) {
    ThrowIfError(MsRelayOperationGetPath(operation, group, &last.paths[group]));
  }
}

// Inputs, in order: shape carrier (infer.h), query, a key, a value, key..., value..., key_share...,
// value_share..., packed_share..., attention_mask, seq_len, kv_seq_len, kv_share_map, kv_share_len,
// block_tables, share_block_tables, stacked_lists, head_num, kv_head_num, qk_scale, mask_type,
// path. Outputs: attn_out, lse.
void Run(const RawParams &params) {
  thread_local Runner runner;
  ArgumentReader reader(kOpName, params, runner.tensors());
  reader.ShapeCarrier();
  const MsRelayTensor *const query = reader.Tensor("query");
  reader.Skip(2);
  MsRelayTensorList key = reader.TensorList("key", reader.CarriedDim(kCarriedKeys));
  MsRelayTensorList value = reader.TensorList("value", reader.CarriedDim(kCarriedValues));
  MsRelayTensorList key_share =
      reader.TensorList("key_share", reader.CarriedDim(kCarriedKeyShares));
  MsRelayTensorList value_share =
      reader.TensorList("value_share", reader.CarriedDim(kCarriedValueShares));
  const MsRelayTensorList packed_share =
      reader.TensorList("packed_share", reader.CarriedDim(kCarriedPackedShares));
  const MsRelayTensor *const attention_mask = reader.Tensor("attention_mask");
  const MsRelayTensor *const seq_len = reader.Tensor("seq_len");
  const MsRelayTensor *const kv_seq_len = reader.Tensor("kv_seq_len");
  const MsRelayTensor *const kv_share_map = reader.Tensor("kv_share_map");
  const MsRelayTensor *const kv_share_len = reader.Tensor("kv_share_len");

  MsRelayOptions options = {};
  options.struct_bytes = sizeof(MsRelayOptions);
  options.block_tables = reader.Tensor("block_tables");
  options.share_block_tables = reader.Tensor("share_block_tables");
  options.packed_share = &packed_share;
  const int32_t stacked_lists = reader.Int32("stacked_lists");
  key.is_stacked = (stacked_lists & kKeyIsStacked) != 0;
  value.is_stacked = (stacked_lists & kValueIsStacked) != 0;
  key_share.is_stacked = (stacked_lists & kKeyShareIsStacked) != 0;
  value_share.is_stacked = (stacked_lists & kValueShareIsStacked) != 0;
  const int32_t head_num = reader.Int32("head_num");
  const int32_t kv_head_num = reader.Int32("kv_head_num");
  const float qk_scale = reader.Float32("qk_scale");
  const int32_t mask_type = reader.Int32("mask_type");
  options.path = reader.Int32("path");
  MsRelayTensor *const attn_out = reader.Tensor("attn_out");
  options.lse = reader.Tensor("lse");

  MsRelayOperation **const operation = runner.Prepare(options);
  uint64_t workspace_bytes = 0;
  ThrowIfError(MsRelayAttentionGetWorkspaceSize(
      query, &key, &value, &key_share, &value_share, attention_mask, seq_len, kv_seq_len,
      kv_share_map, kv_share_len, mask_type, head_num, kv_head_num, qk_scale, attn_out,
      &workspace_bytes, operation, nullptr));
  runner.Run(MsRelayAttention, workspace_bytes);
  StoreLastPaths(*operation, kv_share_len == nullptr ? 0 : kv_share_len->shape[0]);
}

}  // namespace
}  // namespace mindspore_relay::aot

extern "C" {

MS_RELAY_API int RelayAttention(int num_params, void **params, int *ranks, int64_t **shapes,
                                const char **dtypes, void * /*stream*/, void * /*extra*/) {
  using namespace mindspore_relay::aot;
  return RunEntry(kOpName, [&] { Run({num_params, params, ranks, shapes, dtypes}); });
}

MS_RELAY_API std::vector<std::vector<int64_t>> RelayAttentionInferShape(int *ranks,
                                                                        int64_t **shapes,
                                                                        void * /*extra*/) {
  using namespace mindspore_relay::aot;
  return InferAttention({ranks, shapes});
}

MS_RELAY_API std::vector<int> RelayAttentionInferType(std::vector<int> type_ids, void * /*extra*/) {
  return {type_ids[1], mindspore_relay::aot::kFloat32TypeId};
}

// Paths (MsRelayPath) of the groups in the process' last successful run, in paths[0 .. capacity).
// Returns the number of groups, which may be more than capacity. For mindspore_relay/operators.py;
// not part of the C interface.
MS_RELAY_API int64_t RelayAttentionLastPaths(int32_t *paths, int64_t capacity) {
  using namespace mindspore_relay::aot;
  LastPaths &last = GetLastPaths();
  const std::lock_guard<std::mutex> lock(last.mutex);
  const int64_t num_groups = static_cast<int64_t>(last.paths.size());
  std::copy_n(last.paths.begin(), std::min(num_groups, capacity), paths);
  return num_groups;
}

}  // extern "C"
