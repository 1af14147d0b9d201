// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Host only: error messages of the tiling functions and the checks that both operators share.

#ifndef MINDSPORE_RELAY_AICORE_COMMON_TILING_CHECK_H_
#define MINDSPORE_RELAY_AICORE_COMMON_TILING_CHECK_H_

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "attention_tiling.h"

namespace mindspore_relay::aicore {

// Sizes of a tensor's dimensions; empty for a tensor that is absent.
using Dims = std::vector<int64_t>;

inline std::string ToText(const Dims &dims) {
  if (dims.empty()) return "none";
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
  return text + "]";
}

inline long long Print(int64_t value) { return static_cast<long long>(value); }

// Stores a message and returns false, so that a check can `return Fail(error, ...)`.
[[gnu::format(printf, 2, 3)]] inline bool Fail(std::string *error, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  *error = text;
  return false;
}

// Largest values that the kernels' 32-bit counters and instruction fields allow.
constexpr int64_t kMaxTokens = int64_t{1} << 30;
constexpr int64_t kMaxHeadNum = 65535;

// Checks and fills what does not depend on the operator. query: [tokens, head_num * head_size] or
// [tokens, head_num, head_size]. kv_head_num 0 means head_num.
inline bool SetHeads(const char *op, const Dims &query, int64_t head_num, int64_t kv_head_num,
                     AttentionTiling *tiling, std::string *error) {
  if (head_num <= 0 || head_num > kMaxHeadNum) {
    return Fail(error, "%s: head_num must be in [1, %lld], got %lld", op, Print(kMaxHeadNum),
                Print(head_num));
  }
  const int64_t kv_heads = kv_head_num == 0 ? head_num : kv_head_num;
  if (kv_heads < 0 || head_num % kv_heads != 0) {
    return Fail(error,
                "%s: head_num must be a multiple of kv_head_num, got head_num=%lld, "
                "kv_head_num=%lld",
                op, Print(head_num), Print(kv_head_num));
  }
  const bool is_flat = query.size() == 2 && query[1] % head_num == 0;
  if (!is_flat && !(query.size() == 3 && query[1] == head_num)) {
    return Fail(error,
                "%s: query must have the shape [tokens, head_num * head_size] or [tokens, "
                "head_num, head_size] with head_num=%lld, got %s",
                op, Print(head_num), ToText(query).c_str());
  }
  const int64_t head_size = is_flat ? query[1] / head_num : query[2];
  if (head_size <= 0 || head_size > kMaxHeadSize || head_size % kFractal != 0) {
    return Fail(error, "%s: head_size must be a multiple of %d up to %d on Ascend, got %lld", op,
                kFractal, kMaxHeadSize, Print(head_size));
  }
  tiling->head_num = static_cast<int32_t>(head_num);
  tiling->kv_head_num = static_cast<int32_t>(kv_heads);
  tiling->heads_per_kv_head = static_cast<int32_t>(head_num / kv_heads);
  tiling->head_size = static_cast<int32_t>(head_size);
  tiling->step_keys = StepKeys(tiling->head_size);
  return true;
}

inline bool CheckBlockSize(const char *op, int64_t block_size, std::string *error) {
  constexpr int64_t kMaxBlockSize = 512;
  if (block_size > 0 && block_size <= kMaxBlockSize && block_size % kFractal == 0) return true;
  return Fail(error, "%s: block_size must be a multiple of %d up to %lld on Ascend, got %lld", op,
              kFractal, Print(kMaxBlockSize), Print(block_size));
}

// A cache: [num_blocks, block_size, kv_head_num * head_size] or [num_blocks, block_size,
// kv_head_num, head_size]; its block table: [num_sources, max_blocks].
inline bool SetPaged(const char *op, const char *what, const Dims &cache, const Dims &table,
                     int64_t num_sources, const AttentionTiling &tiling, KvFormat *format,
                     std::string *error) {
  const int64_t heads = tiling.kv_head_num;
  const bool is_flat = cache.size() == 3 && cache[2] == heads * tiling.head_size;
  if (!is_flat && !(cache.size() == 4 && cache[2] == heads && cache[3] == tiling.head_size)) {
    return Fail(error, "%s: %s must be a cache of %lld heads of %d per token, got %s", op, what,
                Print(heads), tiling.head_size, ToText(cache).c_str());
  }
  if (table.size() != 2 || table[0] != num_sources) {
    return Fail(error, "%s: the block table of %s must have %lld rows, got %s", op, what,
                Print(num_sources), ToText(table).c_str());
  }
  format->form = static_cast<int32_t>(KvForm::kPaged);
  format->block_size = static_cast<int32_t>(cache[1]);
  format->max_blocks = static_cast<int32_t>(table[1]);
  return CheckBlockSize(op, cache[1], error);
}

// Checks that num_keys keys of source `index` fit what its table row has room for.
inline bool CheckBlocks(const char *op, const char *what, int32_t index, int64_t num_keys,
                        const KvFormat &format, std::string *error) {
  const int64_t needed = (num_keys + format.block_size - 1) / format.block_size;
  if (needed <= format.max_blocks) return true;
  return Fail(error,
              "%s: %s[%d] has %lld keys and needs %lld blocks of %d, but a row of the block "
              "table has %d entries",
              op, what, index, Print(num_keys), Print(needed), format.block_size,
              format.max_blocks);
}

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_AICORE_COMMON_TILING_CHECK_H_
