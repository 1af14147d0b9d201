// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "attention/attention_check.h"

#include <cinttypes>
#include <cmath>
#include <cstdio>

#include "common/int_math.h"

namespace mindspore_relay {
namespace {

// "key[3]" for a tensor of a list, "key" else.
struct TensorName {
  explicit TensorName(const KvTensorRule &rule) {
    if (rule.index < 0) {
      std::snprintf(text, sizeof(text), "%s", rule.name);
    } else {
      std::snprintf(text, sizeof(text), "%s[%" PRId64 "]", rule.name, rule.index);
    }
  }
  char text[64];
};

}  // namespace

ShapeText::ShapeText(const TensorView &tensor) {
  int used = std::snprintf(text, sizeof(text), "[");
  for (int32_t i = 0; i < tensor.rank && used < static_cast<int>(sizeof(text)); ++i) {
    used += std::snprintf(text + used, sizeof(text) - used, "%s%" PRId64, i == 0 ? "" : ", ",
                          tensor.shape[i]);
  }
  if (used < static_cast<int>(sizeof(text))) std::snprintf(text + used, sizeof(text) - used, "]");
}

Status CheckPresent(const char *op, const char *name, const TensorView &tensor) {
  if (tensor.is_present()) return OkStatus();
  return InvalidArgument("%s: %s is required, got none", op, name);
}

Status CheckDType(const char *op, const char *name, const TensorView &tensor, DType dtype) {
  if (tensor.dtype == dtype) return OkStatus();
  return InvalidArgument("%s: %s must have dtype %s, got %s", op, name, DTypeName(dtype),
                         DTypeName(tensor.dtype));
}

Status CheckHeadCounts(const char *op, int32_t head_num, int32_t kv_head_num, float qk_scale,
                       HeadParams *heads) {
  if (head_num <= 0)
    return InvalidArgument("%s: head_num must be greater than 0, got head_num=%d", op, head_num);
  if (kv_head_num < 0) {
    return InvalidArgument(
        "%s: kv_head_num must be 0 (meaning head_num) or positive, got kv_head_num=%d", op,
        kv_head_num);
  }
  heads->head_num = head_num;
  heads->kv_head_num = kv_head_num == 0 ? head_num : kv_head_num;
  if (head_num % heads->kv_head_num != 0) {
    return InvalidArgument(
        "%s: head_num must be a multiple of kv_head_num, got head_num=%d, kv_head_num=%d", op,
        head_num, heads->kv_head_num);
  }
  heads->heads_per_kv_head = head_num / heads->kv_head_num;
  if (heads->heads_per_kv_head > kMaxHeadsPerKvHead) {
    return Unsupported(
        "%s: head_num must be at most %d times kv_head_num, got head_num=%d, "
        "kv_head_num=%d",
        op, kMaxHeadsPerKvHead, head_num, heads->kv_head_num);
  }
  if (!std::isfinite(qk_scale)) {
    return InvalidArgument("%s: qk_scale must be finite, got qk_scale=%f", op,
                           static_cast<double>(qk_scale));
  }
  heads->qk_scale = qk_scale;
  return OkStatus();
}

Status CheckHeadSize(const char *op, const char *name, int64_t head_size) {
  if (head_size >= kHeadSizeMultiple && head_size <= kMaxHeadSize &&
      head_size % kHeadSizeMultiple == 0)
    return OkStatus();
  return Unsupported("%s: head_size of %s must be a multiple of %" PRId64 " from %" PRId64
                     " to %d, got head_size=%" PRId64,
                     op, name, kHeadSizeMultiple, kHeadSizeMultiple, kMaxHeadSize, head_size);
}

Status CheckQuery(const char *op, const TensorView &query, HeadParams *heads, RowsView *view) {
  MS_RELAY_RETURN_IF_ERROR(CheckPresent(op, "query", query));
  if (!IsFloating(query.dtype)) {
    return InvalidArgument("%s: query must have dtype float16, bfloat16 or float32, got %s", op,
                           DTypeName(query.dtype));
  }
  const int64_t head_num = heads->head_num;
  int64_t head_size = 0;
  int64_t head_stride = 0;
  if (query.rank == 2 && query.shape[1] % head_num == 0) {
    head_size = head_stride = query.shape[1] / head_num;
  } else if (query.rank == 3 && query.shape[1] == head_num) {
    head_size = query.shape[2];
    head_stride = query.strides[1];
  } else {
    return InvalidArgument(
        "%s: query must be [nTokens, head_num * head_size] or [nTokens, head_num, head_size] with "
        "head_num=%d, got shape %s",
        op, heads->head_num, ShapeText(query).text);
  }
  MS_RELAY_RETURN_IF_ERROR(CheckHeadSize(op, "query", head_size));
  heads->dtype = query.dtype;
  heads->head_size = static_cast<int32_t>(head_size);
  const int64_t element_bytes = DTypeBytes(query.dtype);
  *view = {query.bytes(), query.strides[0] * element_bytes, head_stride * element_bytes};
  return OkStatus();
}

Status CheckOutputs(const char *op, const TensorView &query, const TensorView &out,
                    const TensorView &lse, const HeadParams &heads, RowTensors *rows) {
  MS_RELAY_RETURN_IF_ERROR(CheckPresent(op, "attn_out", out));
  MS_RELAY_RETURN_IF_ERROR(CheckDType(op, "attn_out", out, heads.dtype));
  const int64_t hidden = int64_t{heads.head_num} * heads.value_head_size;
  const bool has_heads = query.rank == 3;
  const bool fits =
      out.rank == query.rank && out.shape[0] == query.shape[0] &&
      (has_heads ? out.shape[1] == heads.head_num && out.shape[2] == heads.value_head_size
                 : out.shape[1] == hidden);
  if (!fits) {
    return InvalidArgument(
        "%s: attn_out must have query's form with head_num=%d heads of value's head_size=%d, got "
        "shape %s "
        "for query %s",
        op, heads.head_num, heads.value_head_size, ShapeText(out).text, ShapeText(query).text);
  }
  const int64_t element_bytes = DTypeBytes(out.dtype);
  const int64_t head_stride = has_heads ? out.strides[1] : heads.value_head_size;
  rows->out = {out.bytes(), out.strides[0] * element_bytes, head_stride * element_bytes};
  rows->lse = RowsView();
  if (!lse.is_present()) return OkStatus();
  MS_RELAY_RETURN_IF_ERROR(CheckDType(op, "lse", lse, DType::kFloat32));
  if (lse.rank != 2 || lse.shape[0] != query.shape[0] || lse.shape[1] != heads.head_num) {
    return InvalidArgument("%s: lse must be [%" PRId64 ", %d] (nTokens, head_num), got shape %s",
                           op, query.shape[0], heads.head_num, ShapeText(lse).text);
  }
  rows->lse = {lse.bytes(), lse.strides[0] * static_cast<int64_t>(sizeof(float)),
               static_cast<int64_t>(sizeof(float))};
  return OkStatus();
}

Status CheckKvTensor(const KvTensorRule &rule, const TensorView &tensor, int32_t *head_size,
                     KvSide *side) {
  // The name is put together for a failure only: lists are checked at every step.
  if (!tensor.is_present()) return CheckPresent(rule.op, TensorName(rule).text, tensor);
  if (tensor.dtype != rule.dtype) {
    return InvalidArgument("%s: %s must have query's dtype %s, got %s", rule.op,
                           TensorName(rule).text, DTypeName(rule.dtype), DTypeName(tensor.dtype));
  }
  const int32_t leading = rule.num_leading;
  const bool has_heads = tensor.rank == leading + 2;
  if (!has_heads && tensor.rank != leading + 1) {
    return InvalidArgument(
        "%s: %s must have %d dimensions (kv heads and elements merged) or %d (apart), got shape %s",
        rule.op, TensorName(rule).text, leading + 1, leading + 2, ShapeText(tensor).text);
  }
  const int64_t kv_heads = rule.kv_head_num;
  const int64_t inner = tensor.shape[leading];
  if (has_heads ? inner != kv_heads : inner % kv_heads != 0) {
    return InvalidArgument("%s: %s must hold kv_head_num=%d heads per token, got shape %s", rule.op,
                           TensorName(rule).text, rule.kv_head_num, ShapeText(tensor).text);
  }
  const int64_t size = has_heads ? tensor.shape[leading + 1] : inner / kv_heads;
  if (*head_size == 0) {
    MS_RELAY_RETURN_IF_ERROR(CheckHeadSize(rule.op, TensorName(rule).text, size));
    *head_size = static_cast<int32_t>(size);
  } else if (size != *head_size) {
    return InvalidArgument(
        "%s: %s must have head_size=%d, got head_size=%" PRId64 " (shape %s, kv_head_num=%d)",
        rule.op, TensorName(rule).text, *head_size, size, ShapeText(tensor).text, rule.kv_head_num);
  }
  const int64_t element_bytes = DTypeBytes(tensor.dtype);
  side->data = tensor.bytes();
  side->token_stride_bytes = tensor.strides[leading - 1] * element_bytes;
  side->head_bytes = size * element_bytes;
  side->head_stride_bytes = (has_heads ? tensor.strides[leading] : size) * element_bytes;
  side->block_stride_bytes = leading == 2 ? tensor.strides[0] * element_bytes : 0;
  return OkStatus();
}

Status CheckCachePair(const char *op, const char *key_name, const TensorView &key,
                      const TensorView &value) {
  if (key.rank != value.rank || key.shape[0] != value.shape[0] || key.shape[1] != value.shape[1]) {
    return InvalidArgument(
        "%s: the caches of %s and its values must have the same num_blocks, block_size and form, "
        "got "
        "shapes %s and %s",
        op, key_name, ShapeText(key).text, ShapeText(value).text);
  }
  if (key.shape[1] < 1 || key.shape[1] > kMaxBlockSize) {
    return InvalidArgument("%s: block_size of %s must be from 1 to %" PRId64
                           ", got block_size=%" PRId64,
                           op, key_name, kMaxBlockSize, key.shape[1]);
  }
  return OkStatus();
}

Status CheckLengths(const LengthsRule &rule, const TensorView &tensor) {
  MS_RELAY_RETURN_IF_ERROR(CheckPresent(rule.op, rule.name, tensor));
  const bool is_allowed =
      tensor.dtype == DType::kInt32 || (rule.allows_uint32 && tensor.dtype == DType::kUInt32);
  if (!is_allowed) {
    return InvalidArgument("%s: %s must have dtype int32%s, got %s", rule.op, rule.name,
                           rule.allows_uint32 ? " or uint32" : "", DTypeName(tensor.dtype));
  }
  if (tensor.rank != 1 || tensor.shape[0] != rule.count) {
    return InvalidArgument("%s: %s must be [%" PRId64 "] (%s), got shape %s", rule.op, rule.name,
                           rule.count, rule.count_name, ShapeText(tensor).text);
  }
  return OkStatus();
}

int64_t LengthAt(const TensorView &tensor, int64_t index) {
  const char *element = tensor.bytes() + index * tensor.strides[0] * DTypeBytes(tensor.dtype);
  if (tensor.dtype == DType::kUInt32) return *reinterpret_cast<const uint32_t *>(element);
  return *reinterpret_cast<const int32_t *>(element);
}

Status CheckBlockTableShape(const char *op, const char *name, const TensorView &tables) {
  MS_RELAY_RETURN_IF_ERROR(CheckDType(op, name, tables, DType::kInt32));
  if (tables.rank == 2) return OkStatus();
  return InvalidArgument("%s: %s must have 2 dimensions, got shape %s", op, name,
                         ShapeText(tables).text);
}

Status CheckBlockTable(const BlockTableRule &rule, const TensorView &tables, int64_t row,
                       int64_t num_keys, const int32_t **table) {
  const int64_t needed = CeilDiv(num_keys, rule.block_size);
  if (needed > tables.shape[1]) {
    return InvalidArgument(
        "%s: %s must have an entry for each block in use: %s %" PRId64 " has %" PRId64
        " keys in blocks of %" PRId64 ", which needs %" PRId64 " entries, got %" PRId64,
        rule.op, rule.name, rule.row_name, row, num_keys, rule.block_size, needed, tables.shape[1]);
  }
  const int32_t *entries =
      reinterpret_cast<const int32_t *>(tables.bytes()) + row * tables.strides[0];
  for (int64_t i = 0; i < needed; ++i) {
    if (entries[i] < 0 || entries[i] >= rule.num_blocks) {
      return InvalidArgument("%s: %s entries in use must be in [0, num_blocks=%" PRId64
                             "), got %s[%" PRId64 "][%" PRId64 "]=%d (%s %" PRId64
                             ", entry %" PRId64 ", %" PRId64 " keys)",
                             rule.op, rule.name, rule.num_blocks, rule.name, row, i, entries[i],
                             rule.row_name, row, i, num_keys);
    }
  }
  *table = entries;
  return OkStatus();
}

}  // namespace mindspore_relay
