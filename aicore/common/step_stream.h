// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The steps of a core's items as one stream, so that the look-ahead runs across items: the first
// scores of the next item are computed before the last product with V of the current one.

#ifndef MINDSPORE_RELAY_AICORE_COMMON_STEP_STREAM_H_
#define MINDSPORE_RELAY_AICORE_COMMON_STEP_STREAM_H_

#include "kernel_operator.h"
#include "work_item.h"

namespace mindspore_relay::aicore {

struct Step {
  int32_t item;  // ordinal of the item on this core
  int32_t key_begin;
  int32_t num_keys;
  bool is_first;  // of its item
  bool is_last;
};

// Keeps the last kSlots steps and the tiles they belong to: step t + 1, whose keys are loaded, down
// to step t - kLookAhead, whose product with V is computed.
template <typename Problem, typename Tile>
class StepStream {
 public:
  __aicore__ inline void Start(Problem *problem, const AttentionTiling &tiling, int32_t core) {
    problem_ = problem;
    core_ = core;
    step_keys_ = tiling.step_keys;
    tiling_ = &tiling;
    cursor_.Start(problem, tiling.starts[0][core], tiling.starts[0][core + 1]);
  }

  // Makes one more step available; does nothing at the end of the stream.
  __aicore__ inline void Fetch() {
    if (is_at_end_) return;
    if (next_key_ >= key_end_) {
      WorkItem item;
      while (!cursor_.Next(&item)) {
        if (++axis_ == kNumAxes) {
          is_at_end_ = true;
          return;
        }
        cursor_.Start(problem_, tiling_->starts[axis_][core_], tiling_->starts[axis_][core_ + 1]);
      }
      ++num_items_;
      problem_->FillTile(item, core_ * kNumAxes + axis_, &tiles_[(num_items_ - 1) % kSlots]);
      next_key_ = item.key_begin;
      key_begin_ = item.key_begin;
      key_end_ = item.key_end;
    }
    Step &step = steps_[num_steps_ % kSlots];
    step.item = num_items_ - 1;
    step.key_begin = next_key_;
    step.num_keys = Min(step_keys_, key_end_ - next_key_);
    step.is_first = next_key_ == key_begin_;
    next_key_ += step.num_keys;
    step.is_last = next_key_ == key_end_;
    ++num_steps_;
  }

  // Steps fetched so far.
  __aicore__ inline int32_t num_steps() const { return num_steps_; }
  __aicore__ inline const Step &At(int32_t step) const { return steps_[step % kSlots]; }
  __aicore__ inline const Tile &TileOf(const Step &step) const {
    return tiles_[step.item % kSlots];
  }

 private:
  static constexpr int32_t kSlots = kLookAhead + 2;

  Problem *problem_ = nullptr;
  const AttentionTiling *tiling_ = nullptr;
  WorkCursor<Problem> cursor_;
  int32_t core_ = 0;
  int32_t axis_ = 0;
  int32_t step_keys_ = 0;
  int32_t key_begin_ = 0;
  int32_t next_key_ = 0;
  int32_t key_end_ = 0;
  int32_t num_items_ = 0;
  int32_t num_steps_ = 0;
  bool is_at_end_ = false;
  Step steps_[kSlots];
  Tile tiles_[kSlots];
};

// Host integers that the kernel reads from GM (inputs whose values the host plan depends on).
struct GmInts {
  AscendC::GlobalTensor<int64_t> values;

  __aicore__ inline int64_t operator[](int32_t index) const { return values.GetValue(index); }
};

__aicore__ inline GmInts MakeGmInts(GM_ADDR address) {
  GmInts ints;
  ints.values.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t *>(address));
  return ints;
}

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_AICORE_COMMON_STEP_STREAM_H_
