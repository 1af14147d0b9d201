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
  int32_t num_cores;                    // AI cores: one cube and two vector cores each
  int64_t system_workspace_bytes = 0;   // reserved by the kernel library in front of ours
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

  // The cheapest key there is: that of a memory-bound tile.
  int64_t MinKeyCost() const { return KeyCost(1); }

 private:
  static constexpr int64_t kUnit = 16;
  // Published figures of the family: 1.6 TB/s of HBM for 24 cores, and 354 TFLOPS from cubes of
  // 16 x 16 x 16 multiply-adds per cycle, which makes 1.8 GHz: 1.6e12 / 24 / 1.8e9 = 37 bytes.
  static constexpr int64_t kGmBytesPerCycle = 37;
  static constexpr int64_t kMacsPerCycle = 16 * 16 * 16;
  // One repeat of 256 bytes (64 floats) per cycle; about 8 instructions touch each score (scale,
  // two folds, subtract, exp, two casts, mask).
  static constexpr int64_t kVectorElementsPerCycle = 64;
  static constexpr int64_t kVectorPasses = 8;
  // Latency that look-ahead does not hide at the start of an item: a few GM round trips.
  static constexpr int64_t kItemCycles = 400;

  int64_t head_size_;
};

// Keys of the cheapest kind that make a core worth waking, in units of the granule: rounding the
// two ends of a range to the granule then changes its cost by at most 1/12.
constexpr int32_t kMinCoreGranules = 12;

// A boundary closer to a unit's end than this part of a core's share is moved to it: the partial
// result of a sliver costs more than the imbalance.
constexpr int64_t kSnapDivisor = 32;

template <typename Problem>
int64_t TileCost(Problem *problem, const CostModel &model, int32_t tile) {
  const int32_t num_keys = problem->NumKeys(tile);
  if (num_keys == 0) return 0;
  const int32_t num_rows = problem->NumRows(tile);
  return model.ItemCost(num_rows) + num_keys * model.KeyCost(num_rows);
}

template <typename Problem>
int64_t TotalCost(Problem *problem, const CostModel &model) {
  int64_t total = 0;
  for (int32_t source = 0; source < problem->num_sources(); ++source) {
    problem->EnterSource(source);
    for (int32_t tile = 0; tile < problem->NumTiles(); ++tile) {
      total += TileCost(problem, model, tile) * problem->kv_head_num();
    }
  }
  return total;
}

// Places the boundary that lies `offset` behind the start of the given unit.
template <typename Problem>
WorkPosition PlaceBoundary(Problem *problem, const CostModel &model, const WorkPosition &unit,
                           int64_t offset, int64_t snap, int32_t key_granule) {
  const int32_t num_rows = problem->NumRows(unit.tile);
  const int32_t num_keys = problem->NumKeys(unit.tile);
  const int64_t key_cost = model.KeyCost(num_rows);
  const int64_t exact = std::max<int64_t>(0, (offset - model.ItemCost(num_rows)) / key_cost);
  const int64_t rounded = (exact + key_granule / 2) / key_granule * key_granule;
  const auto key = static_cast<int32_t>(std::min<int64_t>(rounded, num_keys));
  if (key * key_cost < snap) return {unit.source, unit.tile, unit.kv_head, 0};
  if ((num_keys - key) * key_cost < snap) return {unit.source, unit.tile, unit.kv_head + 1, 0};
  return {unit.source, unit.tile, unit.kv_head, key};
}

// Fills tiling->num_cores and tiling->starts. key_granule: boundaries inside a unit are multiples of
// it. At least one core is used, also when there is no work at all.
template <typename Problem>
void PartitionWork(Problem *problem, int32_t num_cores, int32_t key_granule, AttentionTiling *tiling) {
  const CostModel model(tiling->head_size);
  const int64_t total = TotalCost(problem, model);
  const int64_t min_core_cost = model.MinKeyCost() * kMinCoreGranules * key_granule;
  const int64_t useful_cores = std::max<int64_t>(1, total / min_core_cost);
  const auto cores = static_cast<int32_t>(
      std::min({int64_t{num_cores}, useful_cores, int64_t{kMaxCores}}));
  const int64_t snap = total / cores / kSnapDivisor;

  tiling->num_cores = cores;
  tiling->starts[0] = {0, 0, 0, 0};
  int32_t next = 1;   // boundary to place
  int64_t cost = 0;   // of everything before the current tile
  for (int32_t source = 0; source < problem->num_sources() && next < cores; ++source) {
    problem->EnterSource(source);
    for (int32_t tile = 0; tile < problem->NumTiles() && next < cores; ++tile) {
      const int64_t unit_cost = TileCost(problem, model, tile);
      const int64_t tile_cost = unit_cost * problem->kv_head_num();
      while (next < cores && total * next / cores < cost + tile_cost) {
        const int64_t offset = total * next / cores - cost;
        const WorkPosition unit = {source, tile, static_cast<int32_t>(offset / unit_cost), 0};
        tiling->starts[next++] = PlaceBoundary(problem, model, unit, offset % unit_cost, snap,
                                               key_granule);
      }
      cost += tile_cost;
    }
  }
  for (; next <= cores; ++next) tiling->starts[next] = {problem->num_sources(), 0, 0, 0};
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
