// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// How the work of one launch is laid out and cut into ranges, one per core.
//
// A *source* is a sequence of keys (a group's prefix, a request's own keys). Its query rows form
// *tiles* of at most kTileRows rows. A *unit* is a tile together with a kv head: all its keys are
// read once for all its rows. Units follow each other in the order (source, tile, kv_head); a
// position is a unit and a key in it.
//
// Sources of one kind form an *axis*: groups keep the vector cores busy, single requests the
// memory, so that a core gets its share of each. On axis a, core c works on [starts[a][c],
// starts[a][c + 1]): every (unit, key) belongs to exactly one core by construction. The part of a
// unit that a core has is an *item*; only its first item on an axis can start behind key 0.

#ifndef MINDSPORE_RELAY_AICORE_COMMON_WORK_ITEM_H_
#define MINDSPORE_RELAY_AICORE_COMMON_WORK_ITEM_H_

#include "tile_config.h"

namespace mindspore_relay::aicore {

// Kinds of sources that are dealt to the cores separately.
constexpr int32_t kNumAxes = 2;

struct WorkPosition {
  int32_t source;
  int32_t tile;
  int32_t kv_head;
  int32_t key;
};

MS_RELAY_SHARED bool IsSameUnit(const WorkPosition &a, const WorkPosition &b) {
  return a.source == b.source && a.tile == b.tile && a.kv_head == b.kv_head;
}

MS_RELAY_SHARED bool IsBefore(const WorkPosition &a, const WorkPosition &b) {
  if (a.source != b.source) return a.source < b.source;
  if (a.tile != b.tile) return a.tile < b.tile;
  if (a.kv_head != b.kv_head) return a.kv_head < b.kv_head;
  return a.key < b.key;
}

struct WorkItem {
  int32_t source;
  int32_t tile;
  int32_t kv_head;
  int32_t num_rows;   // 1 .. kTileRows
  int32_t key_begin;  // the item's keys are [key_begin, key_end)
  int32_t key_end;
  int32_t unit_keys;  // keys of the whole unit
};

MS_RELAY_SHARED bool IsWholeUnit(const WorkItem &item) {
  return item.key_begin == 0 && item.key_end == item.unit_keys;
}

// Walks over the items of one range. Problem has
//   int32_t AxisBegin(int32_t axis) const;       first source of an axis, or the number of sources
//   int32_t kv_head_num() const;
//   void EnterSource(int32_t source);            caches what depends on the source
//   int32_t NumTiles() const; int32_t NumKeys(int32_t tile) const; int32_t NumRows(int32_t tile)
//   const;
template <typename Problem>
class WorkCursor {
 public:
  MS_RELAY_SHARED void Start(Problem *problem, const WorkPosition &begin, const WorkPosition &end) {
    problem_ = problem;
    position_ = begin;
    end_ = end;
    entered_source_ = -1;
  }

  // False when the range is exhausted.
  MS_RELAY_SHARED bool Next(WorkItem *item) {
    while (IsBefore(position_, end_)) {
      if (entered_source_ != position_.source) {
        problem_->EnterSource(position_.source);
        entered_source_ = position_.source;
      }
      if (position_.tile >= problem_->NumTiles()) {
        position_ = {position_.source + 1, 0, 0, 0};
        continue;
      }
      const int32_t unit_keys = problem_->NumKeys(position_.tile);
      if (unit_keys == 0 || position_.kv_head >= problem_->kv_head_num()) {
        position_ = {position_.source, position_.tile + 1, 0, 0};
        continue;
      }
      item->source = position_.source;
      item->tile = position_.tile;
      item->kv_head = position_.kv_head;
      item->num_rows = problem_->NumRows(position_.tile);
      item->key_begin = position_.key;
      item->key_end = IsSameUnit(position_, end_) ? Min(end_.key, unit_keys) : unit_keys;
      item->unit_keys = unit_keys;
      position_ = {position_.source, position_.tile, position_.kv_head + 1, 0};
      if (item->key_begin < item->key_end) return true;
    }
    return false;
  }

 private:
  Problem *problem_ = nullptr;
  WorkPosition position_ = {0, 0, 0, 0};
  WorkPosition end_ = {0, 0, 0, 0};
  int32_t entered_source_ = -1;
};

// Consecutive tile rows that are equally spaced in the packed [tokens][head_num] rows of query and
// output.
struct RowRun {
  int32_t num_rows;
  int64_t packed_row;   // token * head_num + head of the first row
  int32_t packed_step;  // packed rows between two rows of the run
  int64_t partial_row;  // row of the partial results; consecutive
  bool is_final;        // the item holds all keys of these rows: write the output itself
};

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_AICORE_COMMON_WORK_ITEM_H_
