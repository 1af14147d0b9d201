// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// What RelayAttention attends to, as sources and tiles (../common/work_item.h). Shared by the host
// plan and the kernel, so that both cannot disagree about it.
//
// Sources 0 .. num_groups - 1 are the groups' prefixes: the rows are those of all members, in the
// order of the batch. Sources num_groups .. num_groups + batch_size - 1 are the requests' own keys.

#ifndef MINDSPORE_RELAY_AICORE_RELAY_ATTENTION_RELAY_PROBLEM_H_
#define MINDSPORE_RELAY_AICORE_RELAY_ATTENTION_RELAY_PROBLEM_H_

#include "../common/attention_tiling.h"

namespace mindspore_relay::aicore {

struct RelayAttentionTiling {
  AttentionTiling attention;
  int32_t num_groups;
  int32_t is_shared_in_cache;  // the groups' blocks are in the requests' caches: no key_share
  KvFormat private_kv;
  KvFormat shared_kv;
};

// The requests whose rows a tile holds.
struct RelayTile {
  WorkItem item;
  int32_t slot;        // core * kNumAxes + axis: where a piece of a cut unit goes
  int32_t first_head;  // head, within the kv head, of the tile's first row
  int32_t num_members;
  int32_t members[kTileRows];  // request of each member, at least one row each
};

// Ints: anything with int64_t operator[](int32_t) const.
template <typename Ints>
class RelayProblem {
 public:
  MS_RELAY_SHARED void Init(const RelayAttentionTiling *tiling, const Ints &kv_seq_len,
                            const Ints &kv_share_map, const Ints &kv_share_len) {
    tiling_ = tiling;
    kv_seq_len_ = kv_seq_len;
    kv_share_map_ = kv_share_map;
    kv_share_len_ = kv_share_len;
  }

  // Axis 0: the groups. Axis 1: the requests.
  MS_RELAY_SHARED int32_t AxisBegin(int32_t axis) const {
    return axis == 0   ? 0
           : axis == 1 ? tiling_->num_groups
                       : tiling_->num_groups + tiling_->attention.batch_size;
  }
  MS_RELAY_SHARED int32_t kv_head_num() const { return tiling_->attention.kv_head_num; }
  MS_RELAY_SHARED bool IsShared(int32_t source) const { return source < tiling_->num_groups; }

  // Group of a request, -1 for none.
  MS_RELAY_SHARED int32_t Group(int32_t request) const {
    return tiling_->num_groups == 0 ? -1 : static_cast<int32_t>(kv_share_map_[request]);
  }
  MS_RELAY_SHARED int32_t SharedKeys(int32_t request) const {
    const int32_t group = Group(request);
    return group < 0 ? 0 : static_cast<int32_t>(kv_share_len_[group]);
  }
  MS_RELAY_SHARED int32_t PrivateKeys(int32_t request) const {
    return static_cast<int32_t>(kv_seq_len_[request]) - SharedKeys(request);
  }

  MS_RELAY_SHARED void EnterSource(int32_t source) {
    const int32_t heads = tiling_->attention.heads_per_kv_head;
    if (IsShared(source)) {
      source_rows_ = CountMembers(source, tiling_->attention.batch_size) * heads;
      source_keys_ = static_cast<int32_t>(kv_share_len_[source]);
    } else {
      source_rows_ = heads;
      source_keys_ = PrivateKeys(source - tiling_->num_groups);
    }
  }
  MS_RELAY_SHARED int32_t NumTiles() const { return CeilDiv(source_rows_, kTileRows); }
  MS_RELAY_SHARED int32_t NumKeys(int32_t /*tile*/) const { return source_keys_; }
  MS_RELAY_SHARED int32_t NumRows(int32_t tile) const {
    return Min(kTileRows, source_rows_ - tile * kTileRows);
  }

  // Members of a group among the first num_requests requests.
  MS_RELAY_SHARED int32_t CountMembers(int32_t group, int32_t num_requests) const {
    int32_t count = 0;
    for (int32_t request = 0; request < num_requests; ++request) {
      count += Group(request) == group ? 1 : 0;
    }
    return count;
  }

  MS_RELAY_SHARED void FillTile(const WorkItem &item, int32_t slot, RelayTile *tile) const {
    const int32_t heads = tiling_->attention.heads_per_kv_head;
    const int32_t first_row = item.tile * kTileRows;
    tile->item = item;
    tile->slot = slot;
    tile->first_head = first_row % heads;
    tile->num_members = CeilDiv(tile->first_head + item.num_rows, heads);
    if (!IsShared(item.source)) {
      tile->members[0] = item.source - tiling_->num_groups;
      return;
    }
    int32_t to_skip = first_row / heads;
    int32_t found = 0;
    for (int32_t request = 0; found < tile->num_members; ++request) {
      if (Group(request) != item.source) continue;
      if (to_skip-- > 0) continue;
      tile->members[found++] = request;
    }
  }

  // The run that starts at the given row of the tile and ends before row_end.
  MS_RELAY_SHARED RowRun RunAt(const RelayTile &tile, int32_t row, int32_t row_end) const {
    const int32_t heads = tiling_->attention.heads_per_kv_head;
    const int32_t from_member = tile.first_head + row;
    const int32_t request = tile.members[from_member / heads];
    const int32_t head = from_member % heads;
    RowRun run;
    run.num_rows = Min(heads - head, row_end - row);
    run.packed_row =
        int64_t{request} * tiling_->attention.head_num + tile.item.kv_head * heads + head;
    run.packed_step = 1;
    run.is_final = IsWholeUnit(tile.item) && HasOnePart(request);
    run.partial_row = tile.item.key_begin > 0 ? SplitRow(tile.slot, row)
                                              : MainRow(tile.item.source, run.packed_row);
    return run;
  }

  // Exactly one of the two parts of a request has keys.
  MS_RELAY_SHARED bool HasOnePart(int32_t request) const {
    return (SharedKeys(request) > 0) != (PrivateKeys(request) > 0);
  }

  // Rows of the partial results: that of the shared part for each packed row, that of the private
  // part for each packed row, and one tile per core and axis for an item that starts behind
  // key 0.
  MS_RELAY_SHARED int64_t MainRow(int32_t source, int64_t packed_row) const {
    return (IsShared(source) ? 0 : PackedRows()) + packed_row;
  }
  MS_RELAY_SHARED int64_t SplitRow(int32_t slot, int32_t row) const {
    return 2 * PackedRows() + int64_t{slot} * kTileRows + row;
  }
  MS_RELAY_SHARED int64_t PackedRows() const {
    return int64_t{tiling_->attention.batch_size} * tiling_->attention.head_num;
  }
  MS_RELAY_SHARED int64_t NumPartialRows() const {
    return SplitRow(tiling_->attention.num_cores * kNumAxes, 0);
  }

 private:
  const RelayAttentionTiling *tiling_ = nullptr;
  Ints kv_seq_len_;
  Ints kv_share_map_;
  Ints kv_share_len_;
  int32_t source_rows_ = 0;
  int32_t source_keys_ = 0;
};

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_AICORE_RELAY_ATTENTION_RELAY_PROBLEM_H_
