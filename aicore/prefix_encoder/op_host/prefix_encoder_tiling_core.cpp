// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "prefix_encoder_tiling_core.h"

#include <algorithm>

namespace mindspore_relay::aicore {
namespace {

constexpr char kOp[] = "prefix_encoder";

// Side of the compressed ALiBi mask (operator document).
constexpr int64_t kCompressedSide = 256;

int64_t LongestKvSeqLen(const PrefixEncoderShape &shape) {
  int64_t longest = 0;
  for (int64_t b = 0; b < shape.batch_size; ++b) longest = std::max(longest, shape.kv_seq_len[b]);
  return longest;
}

bool CheckSlopes(const PrefixEncoderShape &shape, bool is_needed, std::string *error) {
  if (!is_needed && shape.slopes.empty()) return true;
  if (!is_needed) {
    return Fail(error, "%s: mask_type %lld takes no slopes with this mask", kOp,
                Print(shape.mask_type));
  }
  if (shape.slopes == Dims{shape.head_num}) return true;
  return Fail(error, "%s: slopes must have the shape [head_num] = [%lld], got %s", kOp,
              Print(shape.head_num), ToText(shape.slopes).c_str());
}

// mask of [head_num, rows, 128]: finished bias of every head.
bool SetTable(const PrefixEncoderShape &shape, PrefixEncoderTiling *tiling, std::string *error) {
  const Dims &mask = shape.mask;
  const int64_t longest = LongestKvSeqLen(shape);
  if (shape.mask_type != static_cast<int64_t>(PrefixMaskType::kAlibiCompress)) {
    return Fail(error, "%s: a 3-D mask needs mask_type 3, got %lld", kOp, Print(shape.mask_type));
  }
  if (mask[0] != shape.head_num || mask[1] < longest || mask[2] != kTableColumns) {
    return Fail(error,
                "%s: a 3-D mask must have the shape [head_num, >= longest kv_seq_len, %d] = "
                "[%lld, >= %lld, %d], got %s",
                kOp, kTableColumns, Print(shape.head_num), Print(longest), kTableColumns,
                ToText(mask).c_str());
  }
  tiling->bias_kind = static_cast<int32_t>(BiasKind::kTable);
  tiling->table_rows = static_cast<int32_t>(mask[1]);
  return CheckSlopes(shape, false, error);
}

bool SetCompressed(const PrefixEncoderShape &shape, BiasKind kind, PrefixEncoderTiling *tiling,
                   std::string *error) {
  if (shape.mask.size() == 3) return SetTable(shape, tiling, error);
  if (shape.mask != Dims{kCompressedSide, kCompressedSide}) {
    return Fail(error, "%s: mask_type %lld needs a mask of the shape [%lld, %lld], got %s", kOp,
                Print(shape.mask_type), Print(kCompressedSide), Print(kCompressedSide),
                ToText(shape.mask).c_str());
  }
  tiling->bias_kind = static_cast<int32_t>(kind);
  return CheckSlopes(shape, true, error);
}

bool SetMask(const PrefixEncoderShape &shape, PrefixEncoderTiling *tiling, std::string *error) {
  switch (static_cast<PrefixMaskType>(shape.mask_type)) {
    case PrefixMaskType::kAlibiCompress:
      return SetCompressed(shape, BiasKind::kDistance, tiling, error);
    case PrefixMaskType::kAlibiCompressSqrt:
      return SetCompressed(shape, BiasKind::kSqrtDistance, tiling, error);
    case PrefixMaskType::kAlibiCompressLeftAlign:
      return SetCompressed(shape, BiasKind::kColumn, tiling, error);
    case PrefixMaskType::kCausal:
      if (!shape.mask.empty()) {
        return Fail(error, "%s: mask_type 9 (causal) takes no mask, got one of the shape %s", kOp,
                    ToText(shape.mask).c_str());
      }
      tiling->bias_kind = static_cast<int32_t>(BiasKind::kNone);
      return CheckSlopes(shape, false, error);
  }
  return Fail(error, "%s: mask_type must be 3, 4, 5 (ALiBi) or 9 (causal), got %lld", kOp,
              Print(shape.mask_type));
}

bool CheckLengths(const PrefixEncoderShape &shape, const KvFormat &kv, std::string *error) {
  int64_t num_tokens = 0;
  for (int32_t b = 0; b < shape.batch_size; ++b) {
    if (shape.seq_len[b] < 0 || shape.seq_len[b] > shape.kv_seq_len[b]) {
      return Fail(error, "%s: seq_len[%d] must be in [0, kv_seq_len[%d]=%lld], got %lld", kOp, b, b,
                  Print(shape.kv_seq_len[b]), Print(shape.seq_len[b]));
    }
    if (shape.kv_seq_len[b] > kMaxTokens) {
      return Fail(error, "%s: kv_seq_len[%d] must be at most %lld, got %lld", kOp, b,
                  Print(kMaxTokens), Print(shape.kv_seq_len[b]));
    }
    // Without query rows nothing is read.
    const int64_t num_keys = shape.seq_len[b] == 0 ? 0 : shape.kv_seq_len[b];
    if (!CheckBlocks(kOp, "kv_seq_len", b, num_keys, kv, error)) return false;
    num_tokens += shape.seq_len[b];
  }
  if (num_tokens == shape.query[0]) return true;
  return Fail(error, "%s: query must have sum(seq_len)=%lld rows, got %lld", kOp, Print(num_tokens),
              Print(shape.query[0]));
}

}  // namespace

bool ComputePrefixEncoderTiling(const PrefixEncoderShape &shape, const Platform &platform,
                                PrefixEncoderTiling *tiling, int64_t *workspace_bytes,
                                std::string *error) {
  *tiling = {};
  AttentionTiling &attention = tiling->attention;
  if (!SetHeads(kOp, shape.query, shape.head_num, shape.kv_head_num, &attention, error))
    return false;
  if (shape.key != shape.value) {
    return Fail(error, "%s: key and value must have the same shape on Ascend, got %s and %s", kOp,
                ToText(shape.key).c_str(), ToText(shape.value).c_str());
  }
  if (!SetPaged(kOp, "key", shape.key, shape.block_tables, shape.batch_size, attention, &tiling->kv,
                error)) {
    return false;
  }
  if (!CheckLengths(shape, tiling->kv, error) || !SetMask(shape, tiling, error)) return false;
  attention.batch_size = static_cast<int32_t>(shape.batch_size);
  attention.qk_scale = shape.qk_scale;
  tiling->tile_heads = std::min(attention.heads_per_kv_head, kTileRows);
  tiling->tile_tokens = kTileRows / tiling->tile_heads;
  tiling->head_tiles = CeilDiv(attention.heads_per_kv_head, kTileRows);

  PrefixProblem<const int64_t *> problem;
  problem.Init(tiling, shape.seq_len, shape.kv_seq_len);
  const bool has_table = tiling->bias_kind == static_cast<int32_t>(BiasKind::kTable);
  // The table is addressed by blocks of 128 keys; otherwise a fractal is the smallest cut.
  PartitionWork(&problem, platform.num_cores, has_table ? kTableColumns : kFractal, &attention);
  LayOutWorkspace(problem.NumPartialRows(), &attention);
  *workspace_bytes = platform.system_workspace_bytes + attention.workspace.num_bytes;
  return true;
}

}  // namespace mindspore_relay::aicore
