// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Host only: cuts the axes of work_item.h into ranges of equal cost.

#ifndef MINDSPORE_RELAY_AICORE_COMMON_WORK_PARTITION_H_
#define MINDSPORE_RELAY_AICORE_COMMON_WORK_PARTITION_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "attention_tiling.h"

namespace mindspore_relay::aicore {

// What the plan has to know of the processor; the host reads it from the platform object.
struct Platform {
  int32_t num_cores;                   // AI cores: one cube and two vector cores each
  int64_t system_workspace_bytes = 0;  // reserved by the kernel library in front of ours
};

// Time of a piece of work on one AI core, in 1/16 cycles, as the largest of what memory, cube and
// vector cores need for it. It only has to be right in proportion.
class CostModel {
 public:
  explicit CostModel(int32_t head_size) : head_size_(head_size) {}

  // One key of a tile of num_rows rows.
  int64_t KeyCost(int32_t num_rows) const {
    const int64_t kv_bytes = int64_t{2} * head_size_ * 2;
    const int64_t macs = int64_t{2} * RoundUp(num_rows, kFractal) * head_size_;
    const int64_t vector_elements = int64_t{CeilDiv(num_rows, 2)} * kVectorPasses;
    return std::max({kv_bytes * kUnit / kGmBytesPerCycle, macs * kUnit / kMacsPerCycle,
                     vector_elements * kUnit / kVectorElementsPerCycle});
  }

  // An item: start of the pipeline, and query, output or partial output of its rows.
  int64_t ItemCost(int32_t num_rows) const {
    const int64_t row_bytes = int64_t{num_rows} * head_size_ * 8;
    return kItemCycles * kUnit + row_bytes * kUnit / kGmBytesPerCycle;
  }

 private:
  static constexpr int64_t kUnit = 16;
  // Published figures of the family: 1.6 TB/s of HBM for 24 cores, and 354 TFLOPS from cubes of
  // 16 x 16 x 16 multiply-adds per cycle, which makes 1.8 GHz: 1.6e12 / 24 / 1.8e9 = 37 bytes.
  static constexpr int64_t kGmBytesPerCycle = 37;
  static constexpr int64_t kMacsPerCycle = 16 * 16 * 16;
  // One repeat of 256 bytes (64 floats) per cycle. About 8 instructions touch each score; a strip
  // of 16 x 256 scores takes some 35 dependent instructions, whose start-up, estimated at 13 cycles
  // each, is as long as 7 more.
  static constexpr int64_t kVectorElementsPerCycle = 64;
  static constexpr int64_t kVectorPasses = 15;
  // Latency that look-ahead does not hide at the start of an item: a few GM round trips.
  static constexpr int64_t kItemCycles = 400;

  int64_t head_size_;
};

// Keys of the cheapest kind that make another core worth waking, in units of the granule: rounding
// a range to the granule then changes its cost by at most 1/12.
constexpr int32_t kMinCoreGranules = 12;

// A unit is not cut into pieces of fewer keys. With 64 the dearest core of every twentieth of 600
// random problems cost 3 % more, in single ones 30 %; 16 gains next to nothing.
constexpr int32_t kMinPieceKeys = 32;

// The search for the smallest budget stops at this relative precision.
constexpr int64_t kBudgetPrecision = 256;

inline int32_t MinPiece(int32_t key_granule) { return std::max(key_granule, kMinPieceKeys); }

struct WorkSummary {
  int64_t total_cost = 0;
  // The dearest item that cannot be cut further: no budget may be smaller.
  int64_t min_budget = 1;
};

template <typename Problem>
WorkSummary SummarizeWork(Problem *problem, const CostModel &model, int32_t axis,
                          int32_t key_granule) {
  WorkSummary summary;
  for (int32_t source = problem->AxisBegin(axis); source < problem->AxisBegin(axis + 1); ++source) {
    problem->EnterSource(source);
    for (int32_t tile = 0; tile < problem->NumTiles(); ++tile) {
      const int32_t num_keys = problem->NumKeys(tile);
      if (num_keys == 0) continue;
      const int32_t num_rows = problem->NumRows(tile);
      const int64_t item_cost = model.ItemCost(num_rows);
      const int64_t key_cost = model.KeyCost(num_rows);
      summary.total_cost += (item_cost + num_keys * key_cost) * problem->kv_head_num();
      // A unit of less than two pieces is not cut at all.
      const int32_t uncut_keys = std::min(num_keys, 2 * MinPiece(key_granule));
      summary.min_budget = std::max(summary.min_budget, item_cost + uncut_keys * key_cost);
    }
  }
  return summary;
}

// Deals one axis to the cores in order, each as much as its budget allows.
template <typename Problem>
class AxisDealer {
 public:
  AxisDealer(Problem *problem, const CostModel &model, int32_t axis, int32_t key_granule)
      : problem_(problem), model_(model), axis_(axis), key_granule_(key_granule) {}

  // False if budgets.size() cores are not enough. Writes the starts of all cores, the end behind
  // them, and what each core's share costs.
  bool Deal(const std::vector<int64_t> &budgets, WorkPosition *starts,
            std::vector<int64_t> *costs) {
    budgets_ = &budgets;
    starts_ = starts;
    costs_ = costs;
    costs->assign(budgets.size(), 0);
    core_ = 0;
    const int32_t end = problem_->AxisBegin(axis_ + 1);
    starts[0] = {problem_->AxisBegin(axis_), 0, 0, 0};
    for (int32_t source = starts[0].source; source < end; ++source) {
      problem_->EnterSource(source);
      for (int32_t tile = 0; tile < problem_->NumTiles(); ++tile) {
        if (problem_->NumKeys(tile) > 0 && !DealTile(source, tile)) return false;
      }
    }
    for (size_t core = core_ + 1; core <= budgets.size(); ++core) starts[core] = {end, 0, 0, 0};
    return true;
  }

 private:
  bool DealTile(int32_t source, int32_t tile) {
    const int32_t num_keys = problem_->NumKeys(tile);
    const int64_t item_cost = model_.ItemCost(problem_->NumRows(tile));
    const int64_t key_cost = model_.KeyCost(problem_->NumRows(tile));
    int32_t head = 0;
    int32_t key = 0;
    while (head < problem_->kv_head_num()) {
      int64_t &cost = (*costs_)[core_];
      const int64_t left = (*budgets_)[core_] - cost;
      const int64_t rest_cost = item_cost + (num_keys - key) * key_cost;
      if (rest_cost <= left) {
        // Units of one tile cost the same: take all whole ones that fit at once.
        const int64_t whole = key > 0 ? 1 : left / rest_cost;
        const int64_t taken = std::min<int64_t>(whole, problem_->kv_head_num() - head);
        cost += taken * rest_cost;
        head += static_cast<int32_t>(taken);
        key = 0;
        continue;
      }
      const int32_t keys = PieceKeys((left - item_cost) / key_cost, num_keys - key);
      if (keys > 0) cost += item_cost + keys * key_cost;
      key += keys;
      if (++core_ == budgets_->size()) return false;
      starts_[core_] = {source, tile, head, key};
    }
    return true;
  }

  // Keys of the piece to cut from rest_keys when keys_that_fit fit: 0 if it or what is left would
  // be too short.
  int32_t PieceKeys(int64_t keys_that_fit, int32_t rest_keys) const {
    const int32_t min_piece = MinPiece(key_granule_);
    const int64_t most = std::min<int64_t>(keys_that_fit, rest_keys - min_piece);
    return most < min_piece ? 0 : static_cast<int32_t>(most / key_granule_ * key_granule_);
  }

  Problem *problem_;
  const CostModel &model_;
  int32_t axis_;
  int32_t key_granule_;
  const std::vector<int64_t> *budgets_ = nullptr;
  WorkPosition *starts_ = nullptr;
  std::vector<int64_t> *costs_ = nullptr;
  size_t core_ = 0;
};

// Deals the axis such that the dearest core, with what it has already (taken), costs as little as
// possible. Adds the costs of the axis to `taken`.
template <typename Problem>
void DealEvenly(AxisDealer<Problem> *dealer, const WorkSummary &work, WorkPosition *starts,
                std::vector<int64_t> *taken) {
  const auto num_cores = static_cast<int64_t>(taken->size());
  std::vector<int64_t> costs;
  std::vector<int64_t> budgets(taken->size());
  const auto deal = [&](int64_t budget) {
    for (size_t core = 0; core < budgets.size(); ++core) {
      budgets[core] = std::max<int64_t>(0, budget - (*taken)[core]);
    }
    return dealer->Deal(budgets, starts, &costs);
  };
  int64_t total = work.total_cost;
  for (const int64_t cost : *taken) total += cost;
  int64_t enough = total + work.min_budget;  // the last core could take the whole axis
  int64_t too_small = std::max(total / num_cores, work.min_budget) - 1;
  while (enough - too_small > 1 + too_small / kBudgetPrecision) {
    const int64_t budget = too_small + (enough - too_small) / 2;
    (deal(budget) ? enough : too_small) = budget;
  }
  deal(enough);
  for (size_t core = 0; core < costs.size(); ++core) (*taken)[core] += costs[core];
}

// Fills tiling->num_cores and tiling->starts: each axis dealt evenly, the later one so that it
// evens out what the earlier one left uneven, over as few cores as reach that. Boundaries inside a
// unit are multiples of key_granule. At least one core is used, also when there is no work at all.
template <typename Problem>
void PartitionWork(Problem *problem, int32_t num_cores, int32_t key_granule,
                   AttentionTiling *tiling) {
  const CostModel model(tiling->head_size);
  const int64_t min_core_cost = model.KeyCost(1) * kMinCoreGranules * key_granule;
  const auto useful_cores = [&](int64_t cost) {
    return std::clamp<int64_t>(cost / min_core_cost, 1, std::min(num_cores, kMaxCores));
  };
  WorkSummary work[kNumAxes];
  int64_t total_cost = 0;
  for (int32_t axis = 0; axis < kNumAxes; ++axis) {
    work[axis] = SummarizeWork(problem, model, axis, key_granule);
    total_cost += work[axis].total_cost;
  }
  const int64_t max_cores = useful_cores(total_cost);
  std::vector<int64_t> taken;
  for (int32_t axis = 0; axis < kNumAxes; ++axis) {
    // The last axis may use all cores, to even out the others.
    const bool is_last = axis + 1 == kNumAxes;
    taken.resize(static_cast<size_t>(
        is_last ? max_cores : std::min(max_cores, useful_cores(work[axis].total_cost))));
    AxisDealer<Problem> dealer(problem, model, axis, key_granule);
    DealEvenly(&dealer, work[axis], tiling->starts[axis], &taken);
    for (size_t core = taken.size(); core <= kMaxCores; ++core) {
      tiling->starts[axis][core] = {problem->AxisBegin(axis + 1), 0, 0, 0};
    }
  }
  while (taken.size() > 1 && taken.back() == 0) taken.pop_back();
  tiling->num_cores = static_cast<int32_t>(taken.size());
}

// Lays the buffers out one behind the other, each 512-byte aligned, which GM moves fastest.
inline void LayOutWorkspace(int64_t partial_rows, AttentionTiling *tiling) {
  constexpr int64_t kAlignment = 512;
  const int64_t ring_rows = int64_t{tiling->num_cores} * kRingSlots * kTileRows;
  int64_t end = 0;
  const auto place = [&end](int64_t num_bytes) {
    const int64_t begin = end;
    end += (num_bytes + kAlignment - 1) / kAlignment * kAlignment;
    return begin;
  };
  tiling->workspace.scores = place(ring_rows * tiling->step_keys * 4);
  tiling->workspace.probs = place(ring_rows * tiling->step_keys * 2);
  tiling->workspace.step_out = place(ring_rows * tiling->head_size * 4);
  tiling->workspace.partial_out = place(partial_rows * tiling->head_size * 4);
  tiling->workspace.partial_lse = place(partial_rows * 4);
  tiling->workspace.num_bytes = end;
}

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_AICORE_COMMON_WORK_PARTITION_H_
