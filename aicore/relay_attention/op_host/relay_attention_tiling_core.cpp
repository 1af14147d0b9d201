// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "relay_attention_tiling_core.h"

namespace mindspore_relay::aicore {
namespace {

constexpr char kOp[] = "relay_attention";

// Boundaries between cores are multiples of this many keys: one fractal.
constexpr int32_t kKeyGranule = kFractal;

// Where the keys of one kind of source are, and how many of them there is room for.
struct KvShape {
  KvFormat format = {};
  std::vector<int64_t> tokens;  // rows of each tensor of a list
};

// The tensor of a list: [tokens, kv_head_num, head_size] or [tokens, kv_head_num * head_size].
bool IsListed(const Dims &dims, const AttentionTiling &tiling) {
  if (dims.size() == 2) return dims[1] == int64_t{tiling.kv_head_num} * tiling.head_size;
  return dims.size() == 3 && dims[1] == tiling.kv_head_num && dims[2] == tiling.head_size;
}

// The stacked tensor: [num_sources, tokens, ...] with one more dimension than a listed one.
bool IsStacked(const Dims &dims, int64_t num_sources, const AttentionTiling &tiling) {
  return dims.size() >= 3 && dims[0] == num_sources &&
         IsListed(Dims(dims.begin() + 1, dims.end()), tiling);
}

// A single tensor of one source can be read as a list of one as well as stacked: both mean the
// same.
bool SetUnpaged(const char *what, const std::vector<Dims> &tensors, int64_t num_sources,
                const AttentionTiling &tiling, KvShape *kv, std::string *error) {
  if (tensors.size() == 1 && IsStacked(tensors[0], num_sources, tiling)) {
    kv->format.form = static_cast<int32_t>(KvForm::kStacked);
    kv->format.source_tokens = static_cast<int32_t>(tensors[0][1]);
    return true;
  }
  if (static_cast<int64_t>(tensors.size()) != num_sources) {
    return Fail(error, "%s: %s must be a list of %lld tensors, got %zu", kOp, what,
                Print(num_sources), tensors.size());
  }
  kv->format.form = static_cast<int32_t>(KvForm::kList);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!IsListed(tensors[i], tiling)) {
      return Fail(error, "%s: %s[%zu] must have %d heads of %d per token, got %s", kOp, what, i,
                  tiling.kv_head_num, tiling.head_size, ToText(tensors[i]).c_str());
    }
    kv->tokens.push_back(tensors[i][0]);
  }
  return true;
}

bool SetKv(const char *what, const std::vector<Dims> &keys, const std::vector<Dims> &values,
           const Dims &table, int64_t num_sources, const AttentionTiling &tiling, KvShape *kv,
           std::string *error) {
  // Without sources nothing is read, whatever tensors are there.
  if (num_sources == 0) return true;
  if (keys.size() != values.size()) {
    return Fail(error, "%s: %s has %zu tensors and its value counterpart %zu", kOp, what,
                keys.size(), values.size());
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] == values[i]) continue;
    return Fail(error,
                "%s: %s[%zu] and its value counterpart must have the same shape on Ascend, "
                "got %s and %s",
                kOp, what, i, ToText(keys[i]).c_str(), ToText(values[i]).c_str());
  }
  if (!table.empty()) {
    if (keys.size() != 1) {
      return Fail(error, "%s: %s must be one cache if it has a block table, got %zu tensors", kOp,
                  what, keys.size());
    }
    return SetPaged(kOp, what, keys[0], table, num_sources, tiling, &kv->format, error);
  }
  return SetUnpaged(what, keys, num_sources, tiling, kv, error);
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
    case KvForm::kNone:
      break;
    case KvForm::kList:
      capacity = kv.tokens[static_cast<size_t>(index)];
      break;
    case KvForm::kStacked:
      capacity = kv.format.source_tokens;
      break;
    case KvForm::kPaged:
      return CheckBlocks(kOp, what, index, num_keys, kv.format, error);
  }
  if (num_keys <= capacity) return true;
  return Fail(error, "%s: %s[%d] needs %lld keys, but its tensor has %lld rows", kOp, what, index,
              Print(num_keys), Print(capacity));
}

bool CheckRequest(const RelayAttentionShape &shape, const KvShape &private_kv, int32_t request,
                  std::string *error) {
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
    return Fail(error,
                "%s: kv_seq_len[%d]=%lld is smaller than its shared prefix "
                "kv_share_len[%lld]=%lld; kv_seq_len counts shared and private keys together",
                kOp, request, Print(shape.kv_seq_len[request]), Print(group), Print(shared_keys));
  }
  return CheckCapacity("key", private_kv, request, private_keys, error);
}

bool CheckLengths(const RelayAttentionShape &shape, const KvShape &private_kv,
                  const KvShape &shared_kv, std::string *error) {
  for (int32_t group = 0; group < shape.num_groups; ++group) {
    if (shape.kv_share_len[group] < 0) {
      return Fail(error, "%s: kv_share_len[%d] must not be negative, got %lld", kOp, group,
                  Print(shape.kv_share_len[group]));
    }
    if (!CheckCapacity("key_share", shared_kv, group, shape.kv_share_len[group], error))
      return false;
  }
  for (int32_t request = 0; request < shape.query[0]; ++request) {
    if (!CheckRequest(shape, private_kv, request, error)) return false;
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
    return Fail(error, "%s: mask_type must be 0 (undefined), got %lld", kOp,
                Print(shape.mask_type));
  }
  if (!SetHeads(kOp, shape.query, shape.head_num, shape.kv_head_num, &attention, error))
    return false;
  const int64_t batch_size = shape.query[0];
  // Groups without tensors of their own are in the requests' caches.
  const bool is_in_cache = shape.key_share.empty() && !shape.share_block_tables.empty();
  KvShape private_kv;
  KvShape shared_kv;
  if (!SetKv("key", shape.key, shape.value, shape.block_tables, batch_size, attention, &private_kv,
             error) ||
      !SetKv("key_share", is_in_cache ? shape.key : shape.key_share,
             is_in_cache ? shape.value : shape.value_share, shape.share_block_tables,
             shape.num_groups, attention, &shared_kv, error) ||
      !CheckLengths(shape, private_kv, shared_kv, error)) {
    return false;
  }
  attention.batch_size = static_cast<int32_t>(batch_size);
  attention.qk_scale = shape.qk_scale;
  tiling->num_groups = static_cast<int32_t>(shape.num_groups);
  tiling->is_shared_in_cache = is_in_cache ? 1 : 0;
  tiling->private_kv = private_kv.format;
  tiling->shared_kv = shared_kv.format;

  RelayProblem<const int64_t *> problem;
  problem.Init(tiling, shape.kv_seq_len, shape.kv_share_map, shape.kv_share_len);
  PartitionWork(&problem, platform.num_cores, kKeyGranule, &attention);
  LayOutWorkspace(problem.NumPartialRows(), &attention);
  *workspace_bytes = platform.system_workspace_bytes + attention.workspace.num_bytes;
  return true;
}

}  // namespace mindspore_relay::aicore
