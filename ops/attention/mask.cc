// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "attention/mask.h"

#include <algorithm>

namespace mindspore_relay {
namespace {

// Columns of the 3-D mask: m[h][p - 128 * (j / 128)][j % 128].
constexpr int64_t kTableColumns = 128;
static_assert(kTableColumns % kKeyTile == 0, "a tile lies within one column block of the table");

BiasKind KindOf(const BiasParams &bias) {
  if (bias.table != nullptr) return BiasKind::kTable;
  switch (bias.mask_type) {
    case MaskType::kAlibiCompress:
    case MaskType::kAlibiCompressLeftAlign:
      return BiasKind::kLinear;
    case MaskType::kAlibiCompressSqrt:
      return BiasKind::kSqrt;
    case MaskType::kUndefined:
    case MaskType::kNorm:
    case MaskType::kCausal:
      return BiasKind::kNone;
  }
  return BiasKind::kNone;
}

}  // namespace

void FillSlopes(const Plan &plan, const Unit &unit, int32_t kv_head, float *slope) {
  if (plan.bias.slopes == nullptr) return;
  const int32_t heads_per_kv_head = plan.heads.heads_per_kv_head;
  for (int64_t member = 0; member < unit.num_members; ++member) {
    for (int32_t i = 0; i < heads_per_kv_head; ++i) {
      const int64_t head = int64_t{kv_head} * heads_per_kv_head + i;
      slope[member * heads_per_kv_head + i] = plan.bias.slopes[head * plan.bias.slopes_stride];
    }
  }
}

TileMask MakeTileMask(const Plan &plan, const Unit &unit, int64_t key_begin, int32_t num_keys,
                      const MaskRows &rows) {
  TileMask mask = {};
  if (unit.first_position == kNoDiagonal) return mask;
  mask.bias = KindOf(plan.bias);
  const bool counts_from_start = plan.bias.mask_type == MaskType::kAlibiCompressLeftAlign;
  mask.distance_step = counts_from_start ? 1.0f : -1.0f;
  const bool is_whole = key_begin + num_keys <= unit.first_position + 1;
  if (is_whole && mask.bias == BiasKind::kNone) return mask;
  const int32_t heads_per_kv_head = plan.heads.heads_per_kv_head;
  for (int64_t member = 0; member < unit.num_members; ++member) {
    const int64_t position = unit.first_position + member;
    const int32_t visible =
        static_cast<int32_t>(std::clamp<int64_t>(position - key_begin + 1, 0, num_keys));
    // p - j = (p - key_begin) - c, or j = key_begin + c, for key c of the tile.
    const float distance = static_cast<float>(counts_from_start ? key_begin : position - key_begin);
    for (int32_t i = 0; i < heads_per_kv_head; ++i) {
      rows.visible_keys[member * heads_per_kv_head + i] = visible;
      rows.distance[member * heads_per_kv_head + i] = distance;
    }
  }
  mask.visible_keys = is_whole ? nullptr : rows.visible_keys;
  mask.distance = rows.distance;
  return mask;
}

void SelectMaskHead(const Plan &plan, const Unit &unit, int64_t key_begin, int32_t kv_head,
                    const float *slope, const MaskRows &rows, TileMask *mask) {
  mask->slope = slope;
  if (mask->bias != BiasKind::kTable) return;
  const int32_t heads_per_kv_head = plan.heads.heads_per_kv_head;
  const int64_t column = key_begin % kTableColumns;
  for (int64_t member = 0; member < unit.num_members; ++member) {
    // A row that sees no key of the tile has no entry in the table: it points at the table's begin
    // and is not read.
    const int64_t table_row = std::max<int64_t>(
        0, unit.first_position + member - kTableColumns * (key_begin / kTableColumns));
    for (int32_t i = 0; i < heads_per_kv_head; ++i) {
      const int64_t head = int64_t{kv_head} * heads_per_kv_head + i;
      rows.bias_rows[member * heads_per_kv_head + i] =
          plan.bias.table + head * plan.bias.table_head_stride_bytes +
          table_row * plan.bias.table_row_stride_bytes + column * DTypeBytes(plan.heads.dtype);
    }
  }
  mask->bias_rows = rows.bias_rows;
}

}  // namespace mindspore_relay
