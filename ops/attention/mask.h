// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// What a row may see of a tile, and what is added to its scores: causality and the ALiBi forms of
// PrefixEncoder.
//
// Worked example of CAUSAL, seq_len 2, kv_seq_len 5 (1 = visible):   row 0: 1 1 1 1 0
//                                                                     row 1: 1 1 1 1 1
#ifndef MINDSPORE_RELAY_ATTENTION_MASK_H_
#define MINDSPORE_RELAY_ATTENTION_MASK_H_

#include <cstdint>

#include "attention/plan.h"
#include "cpu/tile_kernels.h"

namespace mindspore_relay {

// Room for the mask of one tile, in a worker's scratch. Rows are member-major: row = member *
// heads_per_kv_head + head.
struct MaskRows {
  int32_t *visible_keys;   // [rows]
  float *distance;         // [rows]
  const void **bias_rows;  // [rows]
};

// slope[row] of one kv head's rows. Does nothing for masks without slopes.
void FillSlopes(const Plan &plan, const Unit &unit, int32_t kv_head, float *slope);

// The part of the mask that all kv heads share: visible keys (nullptr when every row sees the whole
// tile) and distances.
TileMask MakeTileMask(const Plan &plan, const Unit &unit, int64_t key_begin, int32_t num_keys,
                      const MaskRows &rows);

// The part that depends on the kv head: its slopes, or its rows of the bias table.
void SelectMaskHead(const Plan &plan, const Unit &unit, int64_t key_begin, int32_t kv_head,
                    const float *slope, const MaskRows &rows, TileMask *mask);

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_ATTENTION_MASK_H_
