// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// What PrefixEncoder attends to, as sources and tiles (../common/work_item.h). Shared by the host
// plan and the kernel.
//
// Source b is request b. A tile holds tile_tokens consecutive tokens for up to tile_heads heads of
// one kv head, head by head; it sees the keys up to the position of its last token, later ones are
// not read at all.

#ifndef MINDSPORE_RELAY_AICORE_PREFIX_ENCODER_PREFIX_PROBLEM_H_
#define MINDSPORE_RELAY_AICORE_PREFIX_ENCODER_PREFIX_PROBLEM_H_

#include "../common/attention_tiling.h"

namespace mindspore_relay::aicore {

// Bias added to qk_scale * q . k for a query at position p and a key at position j <= p.
enum class BiasKind : int32_t {
  kNone = 0,          // 0
  kDistance = 1,      // slopes[h] * (p - j)
  kSqrtDistance = 2,  // slopes[h] * sqrt(p - j)
  kColumn = 3,        // slopes[h] * j
  kTable = 4,         // mask[h][p - 128 * (j / 128)][j % 128]
};

// Columns of the mask tensor of BiasKind::kTable (operator document).
constexpr int32_t kTableColumns = 128;

struct PrefixEncoderTiling {
  AttentionTiling attention;
  KvFormat kv;
  int32_t bias_kind;   // BiasKind
  int32_t table_rows;  // rows per head of the mask tensor (kTable)
  int32_t tile_tokens;
  int32_t tile_heads;
  int32_t head_tiles;  // tiles that share the heads of one kv head
};

struct PrefixTile {
  WorkItem item;
  int32_t core;
  int32_t num_tokens;
  int32_t first_position;  // position of the tile's first token among the request's keys
  int32_t first_head;      // absolute head of the tile's first row
  int64_t first_token;     // packed token of the tile's first row
};

// Ints: anything with int64_t operator[](int32_t) const.
template <typename Ints>
class PrefixProblem {
 public:
  MS_RELAY_SHARED void Init(const PrefixEncoderTiling *tiling, const Ints &seq_len,
                            const Ints &kv_seq_len) {
    tiling_ = tiling;
    seq_len_ = seq_len;
    kv_seq_len_ = kv_seq_len;
  }

  // Axis 0: the requests. Axis 1: nothing.
  MS_RELAY_SHARED int32_t AxisBegin(int32_t axis) const {
    return axis == 0 ? 0 : tiling_->attention.batch_size;
  }
  MS_RELAY_SHARED int32_t kv_head_num() const { return tiling_->attention.kv_head_num; }

  MS_RELAY_SHARED void EnterSource(int32_t source) {
    if (source < source_) {
      source_ = 0;
      token_begin_ = 0;
    }
    for (; source_ < source; ++source_) token_begin_ += seq_len_[source_];
    num_tokens_ = static_cast<int32_t>(seq_len_[source]);
    prefix_keys_ = static_cast<int32_t>(kv_seq_len_[source]) - num_tokens_;
  }
  MS_RELAY_SHARED int32_t NumTiles() const {
    return CeilDiv(num_tokens_, tiling_->tile_tokens) * tiling_->head_tiles;
  }
  MS_RELAY_SHARED int32_t NumKeys(int32_t tile) const {
    return prefix_keys_ + FirstToken(tile) + TileTokens(tile);
  }
  MS_RELAY_SHARED int32_t NumRows(int32_t tile) const { return TileTokens(tile) * TileHeads(tile); }

  // item.source must be the source entered last.
  MS_RELAY_SHARED void FillTile(const WorkItem &item, int32_t slot, PrefixTile *tile) const {
    tile->item = item;
    tile->core = slot / kNumAxes;
    tile->num_tokens = TileTokens(item.tile);
    tile->first_position = prefix_keys_ + FirstToken(item.tile);
    tile->first_head = item.kv_head * tiling_->attention.heads_per_kv_head +
                       item.tile % tiling_->head_tiles * tiling_->tile_heads;
    tile->first_token = token_begin_ + FirstToken(item.tile);
  }

  // The run that starts at the given row of the tile and ends before row_end.
  MS_RELAY_SHARED RowRun RunAt(const PrefixTile &tile, int32_t row, int32_t row_end) const {
    const int32_t token = row % tile.num_tokens;
    RowRun run;
    run.num_rows = Min(tile.num_tokens - token, row_end - row);
    run.packed_row = (tile.first_token + token) * tiling_->attention.head_num + tile.first_head +
                     row / tile.num_tokens;
    run.packed_step = tiling_->attention.head_num;
    run.is_final = IsWholeUnit(tile.item);
    run.partial_row = SplitRow(tile.core, tile.item.key_begin > 0, row);
    return run;
  }

  // Rows of the partial results: a core has at most one item that starts behind key 0 of its unit
  // and one that ends before its unit does; one tile for each.
  MS_RELAY_SHARED int64_t SplitRow(int32_t core, bool starts_inside, int32_t row) const {
    return (int64_t{core} * 2 + (starts_inside ? 0 : 1)) * kTileRows + row;
  }
  MS_RELAY_SHARED int64_t NumPartialRows() const {
    return int64_t{tiling_->attention.num_cores} * 2 * kTileRows;
  }

 private:
  MS_RELAY_SHARED int32_t FirstToken(int32_t tile) const {
    return tile / tiling_->head_tiles * tiling_->tile_tokens;
  }
  MS_RELAY_SHARED int32_t TileTokens(int32_t tile) const {
    return Min(tiling_->tile_tokens, num_tokens_ - FirstToken(tile));
  }
  MS_RELAY_SHARED int32_t TileHeads(int32_t tile) const {
    return Min(tiling_->tile_heads, tiling_->attention.heads_per_kv_head -
                                        tile % tiling_->head_tiles * tiling_->tile_heads);
  }

  const PrefixEncoderTiling *tiling_ = nullptr;
  Ints seq_len_;
  Ints kv_seq_len_;
  int32_t source_ = 0;
  int32_t num_tokens_ = 0;
  int32_t prefix_keys_ = 0;
  int64_t token_begin_ = 0;
};

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_AICORE_PREFIX_ENCODER_PREFIX_PROBLEM_H_
