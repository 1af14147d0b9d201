// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "relay_attention_tiling_core.h"

#include "../../common/tiling_check.h"

namespace mindspore_relay::aicore {
namespace {

constexpr char kOp[] = "relay_attention";

// Boundaries between cores are multiples of this many keys: one fractal.
constexpr int32_t kKeyGranule = kFractal;

long long Print(int64_t value) { return static_cast<long long>(value); }

bool CheckKv(const char *what, const KvShape &kv, int64_t num_sources, std::string *error) {
  switch (static_cast<KvForm>(kv.format.form)) {
    case KvForm::kNone:
      if (num_sources == 0) return true;
      return Fail(error, "%s: %s is missing, but there are %lld lengths for it", kOp, what,
                  Print(num_sources));
    case KvForm::kList:
      if (static_cast<int64_t>(kv.tokens.size()) == num_sources) return true;
      return Fail(error, "%s: %s must be a list of %lld tensors, got %zu", kOp, what,
                  Print(num_sources), kv.tokens.size());
    case KvForm::kStacked:
      return true;
    case KvForm::kPaged:
      return CheckBlockSize(kOp, kv.format.block_size, error);
  }
  return Fail(error, "%s: %s has an unknown form %d", kOp, what, kv.format.form);
}

// num_keys keys of source `index` are there.
bool CheckCapacity(const char *what, const KvShape &kv, int32_t index, int64_t num_keys,
                   std::string *error) {
  if (num_keys > kMaxTokens) {
    return Fail(error, "%s: %s[%d] has %lld keys, more than %lld", kOp, what, index,
                Print(num_keys), Print(kMaxTokens));
  }
  int64_t capacity = 0;
  switch (static_cast<KvForm>(kv.format.form)) {
    case KvForm::kNone: break;
    case KvForm::kList: capacity = kv.tokens[static_cast<size_t>(index)]; break;
    case KvForm::kStacked: capacity = kv.format.source_tokens; break;
    case KvForm::kPaged: return CheckBlocks(kOp, what, index, num_keys, kv.format, error);
  }
  if (num_keys <= capacity) return true;
  return Fail(error, "%s: %s[%d] needs %lld keys, but its tensor has %lld rows", kOp, what, index,
              Print(num_keys), Print(capacity));
}

bool CheckRequest(const RelayAttentionShape &shape, int32_t request, std::string *error) {
  if (shape.seq_len[request] != 1) {
    return Fail(error, "%s: seq_len[%d] must be 1 in a decode step, got %lld", kOp, request,
                Print(shape.seq_len[request]));
  }
  const int64_t group = shape.num_groups == 0 ? -1 : shape.kv_share_map[request];
  if (group < -1 || group >= shape.num_groups) {
    return Fail(error, "%s: kv_share_map[%d] must be in [-1, %lld), got %lld", kOp, request,
                Print(shape.num_groups), Print(group));
  }
  const int64_t shared_keys = group < 0 ? 0 : shape.kv_share_len[group];
  const int64_t private_keys = shape.kv_seq_len[request] - shared_keys;
  if (private_keys < 0) {
    return Fail(error, "%s: kv_seq_len[%d]=%lld is smaller than its shared prefix "
                "kv_share_len[%lld]=%lld; kv_seq_len counts shared and private keys together", kOp,
                request, Print(shape.kv_seq_len[request]), Print(group), Print(shared_keys));
  }
  return CheckCapacity("key", shape.private_kv, request, private_keys, error);
}

bool CheckLengths(const RelayAttentionShape &shape, std::string *error) {
  for (int32_t group = 0; group < shape.num_groups; ++group) {
    if (shape.kv_share_len[group] < 0) {
      return Fail(error, "%s: kv_share_len[%d] must not be negative, got %lld", kOp, group,
                  Print(shape.kv_share_len[group]));
    }
    if (!CheckCapacity("key_share", shape.shared_kv, group, shape.kv_share_len[group], error)) {
      return false;
    }
  }
  for (int32_t request = 0; request < shape.batch_size; ++request) {
    if (!CheckRequest(shape, request, error)) return false;
  }
  return true;
}

}  // namespace

bool ComputeRelayAttentionTiling(const RelayAttentionShape &shape, const Platform &platform,
                                 RelayAttentionTiling *tiling, int64_t *workspace_bytes,
                                 std::string *error) {
  *tiling = {};
  AttentionTiling &attention = tiling->attention;
  if (shape.mask_type != 0) {
    return Fail(error, "%s: mask_type must be 0 (undefined), got %lld", kOp, Print(shape.mask_type));
  }
  if (!SetHeads(kOp, shape.head_num, shape.kv_head_num, shape.head_size, &attention, error)) {
    return false;
  }
  if (!CheckKv("key", shape.private_kv, shape.batch_size, error) ||
      !CheckKv("key_share", shape.shared_kv, shape.num_groups, error) ||
      !CheckLengths(shape, error)) {
    return false;
  }
  attention.batch_size = static_cast<int32_t>(shape.batch_size);
  attention.qk_scale = shape.qk_scale;
  tiling->num_groups = static_cast<int32_t>(shape.num_groups);
  tiling->is_shared_in_cache = shape.is_shared_in_cache ? 1 : 0;
  tiling->private_kv = shape.private_kv.format;
  tiling->shared_kv = shape.shared_kv.format;

  RelayProblem<const int64_t *> problem;
  problem.Init(tiling, shape.kv_seq_len, shape.kv_share_map, shape.kv_share_len);
  PartitionWork(&problem, platform.num_cores, kKeyGranule, &attention);
  LayOutWorkspace(problem.NumPartialRows(), &attention);
  *workspace_bytes = platform.system_workspace_bytes + attention.workspace.num_bytes;
  return true;
}

}  // namespace mindspore_relay::aicore
