// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The items of a plan, core by core, and how evenly they are spread.

#ifndef MINDSPORE_RELAY_TESTS_AICORE_PLAN_ITEMS_H_
#define MINDSPORE_RELAY_TESTS_AICORE_PLAN_ITEMS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/work_partition.h"

namespace mindspore_relay::aicore {

struct PlacedItem {
  int32_t core;
  int32_t axis;
  WorkItem item;
};

template <typename Problem>
std::vector<PlacedItem> ItemsOf(Problem *problem, const AttentionTiling &tiling) {
  std::vector<PlacedItem> items;
  for (int32_t core = 0; core < tiling.num_cores; ++core) {
    for (int32_t axis = 0; axis < kNumAxes; ++axis) {
      WorkCursor<Problem> cursor;
      cursor.Start(problem, tiling.starts[axis][core], tiling.starts[axis][core + 1]);
      WorkItem item;
      while (cursor.Next(&item)) items.push_back({core, axis, item});
    }
  }
  return items;
}

// Largest cost of a core over the mean; 1 if there is no work.
template <typename Problem>
double Imbalance(Problem *problem, const AttentionTiling &tiling) {
  const CostModel model(tiling.head_size);
  std::vector<int64_t> cost(static_cast<size_t>(tiling.num_cores), 0);
  int64_t total = 0;
  for (const PlacedItem &placed : ItemsOf(problem, tiling)) {
    const int32_t rows = placed.item.num_rows;
    const int64_t item_cost =
        model.ItemCost(rows) + (placed.item.key_end - placed.item.key_begin) * model.KeyCost(rows);
    cost[static_cast<size_t>(placed.core)] += item_cost;
    total += item_cost;
  }
  if (total == 0) return 1.0;
  const int64_t largest = *std::max_element(cost.begin(), cost.end());
  return static_cast<double>(largest) * tiling.num_cores / static_cast<double>(total);
}

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_TESTS_AICORE_PLAN_ITEMS_H_
