// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The running softmax of rows, its merge and its end. The only place that knows lse.
#ifndef MINDSPORE_RELAY_ATTENTION_SOFTMAX_STATE_H_
#define MINDSPORE_RELAY_ATTENTION_SOFTMAX_STATE_H_

#include <cstdint>

#include "cpu/tile_kernels.h"

namespace mindspore_relay {

// state <- no keys: acc = 0, row_max = -inf, row_sum = 0.
void ResetState(const TileState &state, int64_t num_rows);

// total <- total joined with part, row by row: rescale both to the larger maximum and add. A side
// without keys leaves the other as it is, to the bit. A left fold in the order of the keys: any
// grouping of rows into work gives the same bits.
void FoldState(const TileKernels &kernels, const TileState &total, const TileState &part,
               int64_t num_rows, int32_t value_head_size);

// out <- acc / row_sum rounded once to the output's dtype; lse <- row_max + log(row_sum). No keys:
// 0 and -inf. lse may be nullptr.
void FinishRow(const DTypeKernels &kernels, const float *acc, float row_max, float row_sum,
               int32_t value_head_size, void *out, float *lse);

// Weights that join two finished results by their natural-log lse. -inf (and, as other libraries
// hand it out for an empty part, +inf) means "no keys": that side's weight is exactly 0. Both: 0, 0
// and -inf. NaN stays NaN.
struct MergeWeights {
  float weight_a;
  float weight_b;
  float lse;
};
MergeWeights ComputeMergeWeights(float lse_a, float lse_b);

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_ATTENTION_SOFTMAX_STATE_H_
