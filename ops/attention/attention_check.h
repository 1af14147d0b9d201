// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// All rules on arguments. They run once, before any work: the layers below may trust a problem.
// Each message names operator, argument, rule and value.
#ifndef MINDSPORE_RELAY_ATTENTION_ATTENTION_CHECK_H_
#define MINDSPORE_RELAY_ATTENTION_ATTENTION_CHECK_H_

#include <cstdint>

#include "attention/params.h"
#include "common/status.h"
#include "common/tensor_view.h"

namespace mindspore_relay {

constexpr int64_t kHeadSizeMultiple = 8;
constexpr int64_t kMaxBlockSize = 512;  // tokens
// Rows of a kv head that one request brings: kernels count rows, and what belongs to them, in 32
// bits.
constexpr int32_t kMaxHeadsPerKvHead = 65536;

// ---- arguments as the caller gave them ----

struct KvListArgs {
  const TensorView *tensors = nullptr;  // [num_tensors]
  int64_t num_tensors = 0;
  bool is_stacked = false;
};

struct RelayAttentionArgs {
  TensorView query;
  KvListArgs key, value, key_share, value_share;
  TensorView seq_len, kv_seq_len, kv_share_map, kv_share_len;
  TensorView block_tables, share_block_tables;  // absent: the pair is not paged
  KvListArgs packed_share;
  TensorView out, lse;  // lse may be absent
  int32_t mask_type = 0;
  int32_t head_num = 0;
  int32_t kv_head_num = 0;
  float qk_scale = 1.0f;
  int32_t path = 0;
};

struct PrefixEncoderArgs {
  TensorView query, key, value, block_tables, mask, seq_len, kv_seq_len, slopes, out, lse;
  int32_t mask_type = 0;
  int32_t head_num = 0;
  int32_t kv_head_num = 0;
  float qk_scale = 1.0f;
};

struct ReshapeAndCacheArgs {
  TensorView key, value, key_cache, value_cache, slot_mapping;
};

struct PackShareArgs {
  TensorView key_share, value_share;
  TensorView share_block_table;  // absent: not paged
  TensorView packed;
  int32_t kv_head_num = 0;
  int64_t kv_share_len = 0;
};

struct MergeAttentionStatesArgs {
  TensorView out_a, lse_a, out_b, lse_b, out, lse;  // lse may be absent
};

// ---- the checks; vectors of *problem are used again ----

Status CheckRelayAttention(const RelayAttentionArgs &args, RelayAttentionProblem *problem);
Status CheckPrefixEncoder(const PrefixEncoderArgs &args, PrefixEncoderProblem *problem);
Status CheckReshapeAndCache(const ReshapeAndCacheArgs &args);
Status CheckMergeAttentionStates(const MergeAttentionStatesArgs &args);

// Mask and slopes of PrefixEncoder against mask_type (alibi_mask_check.cc). args.mask_type is one
// of the operator's.
Status CheckAlibi(const PrefixEncoderArgs &args, int64_t max_kv_seq_len, BiasParams *bias);

// ---- pieces that several checks share ----

// "[2, 3, 4]", cut to the buffer.
struct ShapeText {
  explicit ShapeText(const TensorView &tensor);
  char text[160];
};

Status CheckPresent(const char *op, const char *name, const TensorView &tensor);
Status CheckDType(const char *op, const char *name, const TensorView &tensor, DType dtype);

// head_num, kv_head_num, qk_scale -> heads (but for the sizes and dtype).
Status CheckHeadCounts(const char *op, int32_t head_num, int32_t kv_head_num, float qk_scale,
                       HeadParams *heads);

// query [tokens, head_num * head_size] or [tokens, head_num, head_size] -> heads.dtype,
// heads.head_size, *view.
Status CheckQuery(const char *op, const TensorView &query, HeadParams *heads, RowsView *view);

// out and lse against query -> *rows. heads is complete.
Status CheckOutputs(const char *op, const TensorView &query, const TensorView &out,
                    const TensorView &lse, const HeadParams &heads, RowTensors *rows);

Status CheckHeadSize(const char *op, const char *name, int64_t head_size);

// A tensor of keys or values: `num_leading` dimensions, then [kv_head_num, size] or [kv_head_num *
// size]. *head_size 0: taken from the tensor; else the tensor must have it. -> *side with strides
// of tensor and head.
struct KvTensorRule {
  const char *op;
  const char *name;     // "key", "value_share"
  int64_t index;        // of a list; -1: no list
  int32_t num_leading;  // 1: [S, ...]; 2: [batch, S, ...] or [num_blocks, block_size, ...]
  DType dtype;
  int32_t kv_head_num;
};
Status CheckKvTensor(const KvTensorRule &rule, const TensorView &tensor, int32_t *head_size,
                     KvSide *side);

// Key and value of one cache: same blocks, a block size within the limits.
Status CheckCachePair(const char *op, const char *key_name, const TensorView &key,
                      const TensorView &value);

// An integer tensor [count] on the host.
struct LengthsRule {
  const char *op;
  const char *name;
  int64_t count;
  const char *count_name;  // what count is: "batch"
  bool allows_uint32;
};
Status CheckLengths(const LengthsRule &rule, const TensorView &tensor);
int64_t LengthAt(const TensorView &tensor, int64_t index);

// Row `row` of a block table, for num_keys keys of a cache -> *table.
struct BlockTableRule {
  const char *op;
  const char *name;      // "block_tables"
  const char *row_name;  // "request", "group"
  int64_t num_blocks;    // of the cache
  int64_t block_size;
};
Status CheckBlockTable(const BlockTableRule &rule, const TensorView &tables, int64_t row,
                       int64_t num_keys, const int32_t **table);
Status CheckBlockTableShape(const char *op, const char *name, const TensorView &tables);

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_ATTENTION_ATTENTION_CHECK_H_
