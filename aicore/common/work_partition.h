// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Host only: cuts the axis of work_item.h into ranges of equal cost.

#ifndef MINDSPORE_RELAY_AICORE_COMMON_WORK_PARTITION_H_
#define MINDSPORE_RELAY_AICORE_COMMON_WORK_PARTITION_H_

#include <algorithm>
#include <cstdint>

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

// The search for the smallest budget stops at this relative precision.
constexpr int64_t kBudgetPrecision = 256;

struct WorkSummary {
  int64_t total_cost = 0;
  // The dearest item that cannot be cut further: no budget may be smaller.
  int64_t min_budget = 1;
};

template <typename Problem>
WorkSummary SummarizeWork(Problem *problem, const CostModel &model, int32_t key_granule) {
  WorkSummary summary;
  for (int32_t source = 0; source < problem->num_sources(); ++source) {
    problem->EnterSource(source);
    for (int32_t tile = 0; tile < problem->NumTiles(); ++tile) {
      const int32_t num_keys = problem->NumKeys(tile);
      if (num_keys == 0) continue;
      const int32_t num_rows = problem->NumRows(tile);
      const int64_t item_cost = model.ItemCost(num_rows);
      const int64_t key_cost = model.KeyCost(num_rows);
      summary.total_cost += (item_cost + num_keys * key_cost) * problem->kv_head_num();
      summary.min_budget =
          std::max(summary.min_budget, item_cost + std::min(key_granule, num_keys) * key_cost);
    }
  }
  return summary;
}

// Gives each core as much of the axis as its budget allows and returns the number of cores needed,
// or max_cores + 1 if max_cores are not enough. Writes the cores' starts; budget >= min_budget.
template <typename Problem>
int32_t FillCores(Problem *problem, const CostModel &model, int32_t key_granule, int64_t budget,
                  int32_t max_cores, WorkPosition *starts) {
  int32_t cores = 1;
  int64_t left = budget;
  starts[0] = {0, 0, 0, 0};
  for (int32_t source = 0; source < problem->num_sources(); ++source) {
    problem->EnterSource(source);
    for (int32_t tile = 0; tile < problem->NumTiles(); ++tile) {
      const int32_t num_keys = problem->NumKeys(tile);
      if (num_keys == 0) continue;
      const int64_t item_cost = model.ItemCost(problem->NumRows(tile));
      const int64_t key_cost = model.KeyCost(problem->NumRows(tile));
      int32_t head = 0;
      int32_t key = 0;
      while (head < problem->kv_head_num()) {
        const int64_t rest_cost = item_cost + (num_keys - key) * key_cost;
        if (rest_cost <= left) {
          // Units of one tile cost the same: take all whole ones that fit at once.
          const int64_t whole = key > 0 ? 1 : left / rest_cost;
          const int64_t taken = std::min<int64_t>(whole, problem->kv_head_num() - head);
          left -= taken * rest_cost;
          head += static_cast<int32_t>(taken);
          key = 0;
          continue;
        }
        const int64_t keys_that_fit = std::max<int64_t>(0, left - item_cost) / key_cost;
        key += static_cast<int32_t>(keys_that_fit / key_granule * key_granule);
        if (cores == max_cores) return max_cores + 1;
        starts[cores++] = {source, tile, head, key};
        left = budget;
      }
    }
  }
  return cores;
}

// Fills tiling->num_cores and tiling->starts such that the dearest core costs as little as
// possible, with as few cores as reach that. Boundaries inside a unit are multiples of key_granule.
// At least one core is used, also when there is no work at all.
template <typename Problem>
void PartitionWork(Problem *problem, int32_t num_cores, int32_t key_granule,
                   AttentionTiling *tiling) {
  const CostModel model(tiling->head_size);
  const WorkSummary work = SummarizeWork(problem, model, key_granule);
  const int64_t min_core_cost = model.KeyCost(1) * kMinCoreGranules * key_granule;
  const int64_t useful_cores = std::max<int64_t>(1, work.total_cost / min_core_cost);
  const auto max_cores =
      static_cast<int32_t>(std::min({int64_t{num_cores}, useful_cores, int64_t{kMaxCores}}));

  const auto fill = [&](int64_t budget) {
    return FillCores(problem, model, key_granule, budget, max_cores, tiling->starts);
  };
  int64_t enough = std::max(work.total_cost, work.min_budget);  // one core takes all
  int64_t too_small = std::max(work.total_cost / max_cores, work.min_budget) - 1;
  while (enough - too_small > 1 + too_small / kBudgetPrecision) {
    const int64_t budget = too_small + (enough - too_small) / 2;
    (fill(budget) <= max_cores ? enough : too_small) = budget;
  }
  tiling->num_cores = fill(enough);
  for (int32_t core = tiling->num_cores; core <= kMaxCores; ++core) {
    tiling->starts[core] = {problem->num_sources(), 0, 0, 0};
  }
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
