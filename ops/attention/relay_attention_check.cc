// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The rules of RelayAttention.
#include <cinttypes>

#include "attention/attention_check.h"

namespace mindspore_relay {
namespace {

constexpr char kOp[] = "relay_attention";

// A pair (key, value) or (key_share, value_share): its form, and the head sizes that it must have
// or gives.
struct KvPair {
  const char *key_name;
  const char *value_name;
  const char *tables_name;
  const char *row_name;  // what an element of the list is: "request", "group"
  const KvListArgs *key;
  const KvListArgs *value;
  const TensorView *tables;  // absent: not paged
};

bool IsGiven(const KvListArgs &list) { return list.num_tensors > 0; }

Status CheckPairCounts(const KvPair &pair, int64_t count) {
  if (pair.key->num_tensors != pair.value->num_tensors ||
      pair.key->is_stacked != pair.value->is_stacked) {
    return InvalidArgument(
        "%s: %s and %s must have the same form and number of tensors, got %" PRId64
        "%s and %" PRId64 "%s",
        kOp, pair.key_name, pair.value_name, pair.key->num_tensors,
        pair.key->is_stacked ? " (stacked)" : "", pair.value->num_tensors,
        pair.value->is_stacked ? " (stacked)" : "");
  }
  const bool is_single = pair.tables->is_present() || pair.key->is_stacked;
  if (is_single && pair.key->num_tensors != 1) {
    return InvalidArgument("%s: %s must be one tensor in the %s form, got %" PRId64 " tensors", kOp,
                           pair.key_name, pair.tables->is_present() ? "paged" : "stacked",
                           pair.key->num_tensors);
  }
  if (!is_single && pair.key->num_tensors != count) {
    return InvalidArgument(
        "%s: %s must hold one tensor for each %s, got %" PRId64 " tensors for %" PRId64 " %ss", kOp,
        pair.key_name, pair.row_name, pair.key->num_tensors, count, pair.row_name);
  }
  return OkStatus();
}

Status CheckSameForm(const KvPair &pair, int64_t index) {
  const TensorView &key = pair.key->tensors[index];
  const TensorView &value = pair.value->tensors[index];
  if (key.rank != pair.key->tensors[0].rank || value.rank != key.rank) {
    return InvalidArgument(
        "%s: all tensors of %s and %s must have the same number of dimensions, got shapes %s and "
        "%s at "
        "%" PRId64 ", %s at 0",
        kOp, pair.key_name, pair.value_name, ShapeText(key).text, ShapeText(value).text, index,
        ShapeText(pair.key->tensors[0]).text);
  }
  return OkStatus();
}

// One source per element of the pair, with num_keys = rows that the tensor has (paged: 0, see
// UseKeys).
Status CheckPair(const KvPair &pair, int64_t count, HeadParams *heads,
                 std::vector<KvSource> *sources) {
  sources->assign(static_cast<size_t>(count), KvSource());
  const bool is_paged = pair.tables->is_present();
  const bool is_single = is_paged || pair.key->is_stacked;
  const int32_t num_leading = is_single ? 2 : 1;
  for (int64_t i = 0; i < pair.key->num_tensors; ++i) {
    const int64_t index = is_single ? -1 : i;
    const TensorView &key = pair.key->tensors[i];
    const TensorView &value = pair.value->tensors[i];
    KvSource source;
    MS_RELAY_RETURN_IF_ERROR(
        CheckKvTensor({kOp, pair.key_name, index, num_leading, heads->dtype, heads->kv_head_num},
                      key, &heads->head_size, &source.key));
    MS_RELAY_RETURN_IF_ERROR(
        CheckKvTensor({kOp, pair.value_name, index, num_leading, heads->dtype, heads->kv_head_num},
                      value, &heads->value_head_size, &source.value));
    MS_RELAY_RETURN_IF_ERROR(CheckSameForm(pair, i));
    if (is_paged) {
      MS_RELAY_RETURN_IF_ERROR(CheckCachePair(kOp, pair.key_name, key, value));
      source.block_size = static_cast<int32_t>(key.shape[1]);
      sources->assign(static_cast<size_t>(count), source);
      return OkStatus();
    }
    if (key.shape[num_leading - 1] != value.shape[num_leading - 1] ||
        (is_single && key.shape[0] != value.shape[0])) {
      return InvalidArgument(
          "%s: %s and %s must have the same number of rows, got shapes %s and %s at %" PRId64, kOp,
          pair.key_name, pair.value_name, ShapeText(key).text, ShapeText(value).text, i);
    }
    source.num_keys = key.shape[num_leading - 1];
    if (!is_single) {
      (*sources)[i] = source;
      continue;
    }
    if (key.shape[0] != count) {
      return InvalidArgument("%s: %s must be stacked over %" PRId64 " %ss, got shape %s", kOp,
                             pair.key_name, count, pair.row_name, ShapeText(key).text);
    }
    for (int64_t j = 0; j < count; ++j) {
      (*sources)[j] = source;
      (*sources)[j].key.data += j * source.key.block_stride_bytes;
      (*sources)[j].value.data += j * source.value.block_stride_bytes;
    }
  }
  return OkStatus();
}

// Rows or blocks of element i must cover num_keys; the source then has that many keys.
Status UseKeys(const KvPair &pair, int64_t i, int64_t num_keys, KvSource *source) {
  if (pair.tables->is_present()) {
    const TensorView &cache = pair.key->tensors[0];
    source->num_keys = num_keys;
    return CheckBlockTable({kOp, pair.tables_name, pair.row_name, cache.shape[0], cache.shape[1]},
                           *pair.tables, i, num_keys, &source->block_table);
  }
  if (num_keys > source->num_keys) {
    return InvalidArgument("%s: %s must have a row for each key: %s %" PRId64 " has %" PRId64
                           " keys there, got %" PRId64 " rows",
                           kOp, pair.key_name, pair.row_name, i, num_keys, source->num_keys);
  }
  source->num_keys = num_keys;
  return OkStatus();
}

Status CheckScalars(const RelayAttentionArgs &args) {
  if (args.mask_type != static_cast<int32_t>(MaskType::kUndefined)) {
    return Unsupported("%s: mask_type must be UNDEFINED (0), got mask_type=%d", kOp,
                       args.mask_type);
  }
  if (args.path < static_cast<int32_t>(Path::kAuto) ||
      args.path > static_cast<int32_t>(Path::kPlain)) {
    return InvalidArgument("%s: path must be auto (0), relay (1) or plain (2), got path=%d", kOp,
                           args.path);
  }
  return OkStatus();
}

Status CheckSeqLen(const RelayAttentionArgs &args, int64_t batch) {
  if (!args.seq_len.is_present()) return OkStatus();
  MS_RELAY_RETURN_IF_ERROR(CheckLengths({kOp, "seq_len", batch, "batch", false}, args.seq_len));
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = LengthAt(args.seq_len, b);
    if (length != 1) {
      return InvalidArgument(
          "%s: seq_len must be 1 for each request of a decode step, got seq_len[%" PRId64
          "]=%" PRId64,
          kOp, b, length);
    }
  }
  return OkStatus();
}

// Number of groups, from whatever form they have.
Status CountGroups(const RelayAttentionArgs &args, int64_t *num_groups) {
  if (args.share_block_tables.is_present()) {
    MS_RELAY_RETURN_IF_ERROR(
        CheckBlockTableShape(kOp, "share_block_tables", args.share_block_tables));
    *num_groups = args.share_block_tables.shape[0];
    if (!IsGiven(args.key_share) && !args.block_tables.is_present()) {
      return InvalidArgument(
          "%s: share_block_tables needs a paged cache: key_share, or key with block_tables, got "
          "none",
          kOp);
    }
    return OkStatus();
  }
  *num_groups = args.key_share.num_tensors;
  if (args.key_share.is_stacked && IsGiven(args.key_share))
    *num_groups = args.key_share.tensors[0].shape[0];
  return OkStatus();
}

Status CheckGroupLengths(const RelayAttentionArgs &args, const KvPair &pair, int64_t num_groups,
                         std::vector<KvSource> *sources) {
  if (num_groups == 0 && !args.kv_share_len.is_present()) return OkStatus();
  MS_RELAY_RETURN_IF_ERROR(CheckLengths(
      {kOp, "kv_share_len", num_groups, "number of groups", false}, args.kv_share_len));
  for (int64_t g = 0; g < num_groups; ++g) {
    const int64_t length = LengthAt(args.kv_share_len, g);
    if (length < 0) {
      return InvalidArgument("%s: kv_share_len must not be negative, got kv_share_len[%" PRId64
                             "]=%" PRId64,
                             kOp, g, length);
    }
    KvSource &source = (*sources)[g];
    if (pair.tables->is_present()) {
      source.num_keys = length;  // its table is looked at when a request reads it
    } else {
      MS_RELAY_RETURN_IF_ERROR(UseKeys(pair, g, length, &source));
    }
  }
  return OkStatus();
}

Status CheckRequest(const RelayAttentionArgs &args, const KvPair &pair, int64_t b,
                    RelayAttentionProblem *problem) {
  const int64_t num_groups = static_cast<int64_t>(problem->group_keys.size());
  const int64_t group = args.kv_share_map.is_present() ? LengthAt(args.kv_share_map, b) : -1;
  if (group < -1 || group >= num_groups) {
    return InvalidArgument("%s: kv_share_map must be -1 or a group in [0, %" PRId64
                           "), got kv_share_map[%" PRId64 "]=%" PRId64,
                           kOp, num_groups, b, group);
  }
  const int64_t shared = group < 0 ? 0 : problem->group_keys[group].num_keys;
  const int64_t total = LengthAt(args.kv_seq_len, b);
  if (total < 0) {
    return InvalidArgument(
        "%s: kv_seq_len must not be negative, got kv_seq_len[%" PRId64 "]=%" PRId64, kOp, b, total);
  }
  if (total < shared) {
    return InvalidArgument("%s: kv_seq_len[%" PRId64 "]=%" PRId64
                           " is smaller than its shared prefix kv_share_len[%" PRId64 "]=%" PRId64
                           "; kv_seq_len counts shared and private keys together",
                           kOp, b, total, group, shared);
  }
  problem->group[b] = static_cast<int32_t>(group);
  return UseKeys(pair, b, total - shared, &problem->private_keys[b]);
}

// A group's table must be right only when a request reads it: a group without requests is not
// looked at.
Status CheckGroupTables(const KvPair &pair, RelayAttentionProblem *problem) {
  if (!pair.tables->is_present()) return OkStatus();
  for (int32_t group : problem->group) {
    if (group < 0 || problem->group_keys[group].block_table != nullptr) continue;
    KvSource &source = problem->group_keys[group];
    MS_RELAY_RETURN_IF_ERROR(UseKeys(pair, group, source.num_keys, &source));
  }
  return OkStatus();
}

}  // namespace

Status CheckRelayAttention(const RelayAttentionArgs &args, RelayAttentionProblem *problem) {
  MS_RELAY_RETURN_IF_ERROR(CheckScalars(args));
  HeadParams *heads = &problem->heads;
  *heads = HeadParams();
  MS_RELAY_RETURN_IF_ERROR(
      CheckHeadCounts(kOp, args.head_num, args.kv_head_num, args.qk_scale, heads));
  MS_RELAY_RETURN_IF_ERROR(CheckQuery(kOp, args.query, heads, &problem->rows.query));
  const int64_t batch = args.query.shape[0];
  if (batch > INT32_MAX)
    return Unsupported("%s: batch must be below 2^31, got %" PRId64, kOp, batch);
  problem->path = static_cast<Path>(args.path);

  if (args.block_tables.is_present()) {
    MS_RELAY_RETURN_IF_ERROR(CheckBlockTableShape(kOp, "block_tables", args.block_tables));
    if (args.block_tables.shape[0] != batch) {
      return InvalidArgument("%s: block_tables must have one row for each of %" PRId64
                             " requests, got shape %s",
                             kOp, batch, ShapeText(args.block_tables).text);
    }
  }
  const KvPair own = {"key",     "value",     "block_tables",    "request",
                      &args.key, &args.value, &args.block_tables};
  MS_RELAY_RETURN_IF_ERROR(CheckPairCounts(own, batch));
  MS_RELAY_RETURN_IF_ERROR(CheckPair(own, batch, heads, &problem->private_keys));

  int64_t num_groups = 0;
  MS_RELAY_RETURN_IF_ERROR(CountGroups(args, &num_groups));
  const bool uses_own_cache = args.share_block_tables.is_present() && !IsGiven(args.key_share) &&
                              !IsGiven(args.value_share);
  const KvPair share = {uses_own_cache ? "key" : "key_share",
                        uses_own_cache ? "value" : "value_share",
                        "share_block_tables",
                        "group",
                        uses_own_cache ? &args.key : &args.key_share,
                        uses_own_cache ? &args.value : &args.value_share,
                        &args.share_block_tables};
  MS_RELAY_RETURN_IF_ERROR(CheckPairCounts(share, num_groups));
  MS_RELAY_RETURN_IF_ERROR(CheckPair(share, num_groups, heads, &problem->group_keys));
  MS_RELAY_RETURN_IF_ERROR(CheckGroupLengths(args, share, num_groups, &problem->group_keys));

  MS_RELAY_RETURN_IF_ERROR(CheckSeqLen(args, batch));
  MS_RELAY_RETURN_IF_ERROR(
      CheckLengths({kOp, "kv_seq_len", batch, "batch", false}, args.kv_seq_len));
  if (num_groups > 0 || args.kv_share_map.is_present()) {
    MS_RELAY_RETURN_IF_ERROR(
        CheckLengths({kOp, "kv_share_map", batch, "batch", false}, args.kv_share_map));
  }
  problem->group.assign(static_cast<size_t>(batch), -1);
  for (int64_t b = 0; b < batch; ++b) MS_RELAY_RETURN_IF_ERROR(CheckRequest(args, own, b, problem));
  MS_RELAY_RETURN_IF_ERROR(CheckGroupTables(share, problem));

  // No tensor told value's head size (an empty batch of lists): the output does.
  if (heads->value_head_size == 0 && args.out.is_present()) {
    const int64_t size = args.out.rank == 3 ? args.out.shape[2]
                                            : args.out.shape[args.out.rank - 1] / heads->head_num;
    MS_RELAY_RETURN_IF_ERROR(CheckHeadSize(kOp, "attn_out", size));
    heads->value_head_size = static_cast<int32_t>(size);
  }
  return CheckOutputs(kOp, args.query, args.out, args.lse, *heads, &problem->rows);
}

}  // namespace mindspore_relay
